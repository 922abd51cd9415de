// The bench as a program: short runs of every study that need no quiet machine.
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace ebb::storage_bench {
namespace {

using ::testing::HasSubstr;
using testing::ProgramResult;

const char* const kBench = EBB_BINARY_DIR "/bin/ebb_storage_bench";

size_t EntriesOf(const std::string& folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

TEST(StorageBenchE2eTest, MeasuresEveryFigureAndLeavesNothingBehind) {
  const testing::ScratchFolder scratch;
  const testing::ScratchFolder disk;
  const std::string out = scratch.path() + "/storage.json";

  const ProgramResult run = testing::RunProgram(kBench, {"--quick", "--repeats", "1", "--out", out,
                                                         "--commit", "abc", "--disk", disk.path()});

  // 1: no bar is promised for so short a run.
  ASSERT_TRUE(run.exit_code == 0 || run.exit_code == 1) << run.err;
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(out));
  EXPECT_EQ(json["commit"], "abc");
  EXPECT_GT(json["machine"]["cores"], 0);
  EXPECT_EQ(json["figures"].size(), 18u);
  bool all_hold = true;
  for (const auto& figure : json["figures"]) {
    EXPECT_GT(figure["value"].is_null() ? 0 : figure["value"].get<double>(), 0) << figure;
    all_hold = all_hold && figure["holds"].get<bool>();
  }
  EXPECT_EQ(run.exit_code, all_hold ? 0 : 1);
  EXPECT_EQ(EntriesOf(disk.path()), 0u);
}

TEST(StorageBenchE2eTest, MeasuresOnlyWhatWasAskedFor) {
  const ProgramResult run = testing::RunProgram(
      kBench, {"--quick", "--repeats", "1", "--only", "ram_bytes_per_cached_block"});

  EXPECT_TRUE(run.exit_code == 0 || run.exit_code == 1) << run.err;
  EXPECT_THAT(run.out, HasSubstr("ram_bytes_per_cached_block"));
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr("engine_")));
}

TEST(StorageBenchE2eTest, AnUnknownFigureIsRefusedWithTheNamesThereAre) {
  const ProgramResult run = testing::RunProgram(kBench, {"--only", "engine_speed"});

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("engine_write_hit_ops_per_cpu_s"));
}

}  // namespace
}  // namespace ebb::storage_bench
