// `ebb history export`: every change once, in both formats, by every filter.
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/history/change_export.h"
#include "engine/history/history.h"
#include "tests/engine/history/history_test_helpers.h"
#include "tests/support/program.h"

namespace ebb::engine {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Change FullChange() {
  Change change = MakeChange("a", 1'700'000'000'000, "cache", "operator:eve");
  change.knobs.push_back({"destage", 5, -3});
  change.reason = "=cmd|' /C calc'!A0, \"said\" the node\r\nand more";
  change.context = "c3";
  change.measured = Effect{-0.031, -0.05, -0.01};
  change.verdict = Verdict::kRevert;
  change.verdict_reason = "@worse";
  change.windows_used = 14;
  return change;
}

TEST(ChangeExportTest, ALineOfCsvIsQuotedAndHarmless) {
  Change change = FullChange();
  change.id = 7;

  EXPECT_EQ(ExportLine(ExportFormat::kCsv, change),
            "7,a,2023-11-14T22:13:20.000Z,,,operator:eve,read,c3,cache: 10 -> 20; destage: 5 -> "
            "-3,\"'=cmd|' /C calc'!A0, \"\"said\"\" the node\r\nand more\",0.1,0.05,0.15,-0.031,"
            "-0.05,-0.01,,14,revert,'@worse\r\n");
}

TEST(ChangeExportTest, CsvHasAsManyTitlesAsCells) {
  Change change = MakeChange("a", 1, "cache");
  const auto commas = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  EXPECT_EQ(commas(ExportHeader(ExportFormat::kCsv)),
            commas(ExportLine(ExportFormat::kCsv, change)));
}

TEST(ChangeExportTest, ALineOfJsonHasRestsWords) {
  Change change = FullChange();
  change.id = 7;
  const std::string line = ExportLine(ExportFormat::kJsonLines, change);

  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const json parsed = json::parse(line);
  EXPECT_EQ(parsed["id"], "7");
  EXPECT_EQ(parsed["reason"], change.reason);
  EXPECT_EQ(parsed["outcome"], "revert");
  EXPECT_EQ(parsed["applied_at"], nullptr);
  EXPECT_EQ(parsed["measured"]["mean"], -0.031);
  EXPECT_EQ(parsed["knobs"][1]["to"], -3);
}

TEST(ChangeExportTest, EveryChangeIsToldOncePageAfterPage) {
  const auto history = MakeMemoryHistory();
  for (int64_t i = 0; i < 1'001; ++i) {
    Change change = MakeChange("a", i / 7, "cache");
    ASSERT_TRUE(Put(*history, change).ok());
  }
  uint64_t next = 1'001;
  ASSERT_TRUE(ExportChanges(*history, "", {}, ExportFormat::kJsonLines, [&](std::string_view line) {
                EXPECT_EQ(json::parse(line)["id"], std::to_string(next));
                --next;
                return true;
              }).ok());
  EXPECT_EQ(next, 0U);
}

class HistoryExportTest : public ::testing::Test {
 protected:
  HistoryExportTest() {
    const auto history = OpenHistory(scratch_.path() + "/history", {});
    for (int i = 0; i < 300; ++i) {
      Change change = i % 100 == 50 ? FullChange() : MakeChange("b", 1000 * i, "cache");
      EXPECT_TRUE(Put(**history, change).ok());
    }
  }
  ebb::testing::ProgramResult Export(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"history", "export", "--state-dir", scratch_.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ebb::testing::RunProgram(std::string(EBB_BINARY_DIR) + "/bin/ebb", arguments);
  }
  static int64_t Lines(const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  }

  const ebb::testing::ScratchFolder scratch_;
};

TEST_F(HistoryExportTest, JsonLinesOfAllChanges) {
  const auto seen = Export({});

  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_EQ(Lines(seen.out), 300);
  std::istringstream lines(seen.out);
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(json::accept(line)) << line;
}

TEST_F(HistoryExportTest, FiltersNarrowIt) {
  EXPECT_EQ(Lines(Export({"--knob", "destage"}).out), 3);
  EXPECT_EQ(Lines(Export({"--outcome", "revert", "--context", "c3", "--goal", "read"}).out), 3);
  EXPECT_EQ(Lines(Export({"--actor", "operator"}).out), 3);
  EXPECT_EQ(Lines(Export({"--node", "b", "--from", "100000", "--to", "110000"}).out), 10);
  EXPECT_EQ(Export({"--from", "yesterday"}).exit_code, 2);
}

TEST_F(HistoryExportTest, CsvHasAHeaderAndGuardedCells) {
  const auto seen = Export({"--format", "csv", "--node", "a"});

  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_THAT(seen.out, StartsWith("id,node,proposed_at,"));
  EXPECT_THAT(seen.out, HasSubstr(",'@worse\r\n"));
  EXPECT_EQ(Lines(seen.out), 1 + 3 * 2) << "the reason has two lines";
}

}  // namespace
}  // namespace ebb::engine
