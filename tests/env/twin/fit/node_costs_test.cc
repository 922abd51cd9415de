#include "env/twin/fit/node_costs.h"

#include "env/twin/fit/paced.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace ebb::twin {
namespace {

TEST(NodeCostsTest, MeasuresEveryCostOfThisMachine) {
  const testing::ScratchFolder scratch;
  NodeCostOptions options{.metadata_dir = scratch.path() + "/metadata", .quick = true};
  double last_share = -1;
  options.on_progress = [&](double share, std::string_view) {
    EXPECT_GE(share, last_share);
    last_share = share;
  };

  const auto costs = MeasureNodeCosts(options);

  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(last_share, 1);
  const CpuCosts& cpu = costs->cpu;
  EXPECT_EQ(cpu.nbd_request, 0);  // not the store's
  const std::pair<const char*, double> all[] = {{"hit", cpu.read_request + cpu.read_block},
                                                {"write", cpu.write_request + cpu.write_block},
                                                {"flush", cpu.flush_request},
                                                {"page", cpu.map_page_miss},
                                                {"unit", cpu.unit_miss},
                                                {"destage", cpu.destage_block},
                                                {"fingerprint", cpu.fingerprint_block},
                                                {"commit", costs->metadata.commit_ns}};
  for (const auto& [name, cost] : all) EXPECT_GT(cost, 0) << name;
  for (size_t codec = 1; codec < 4; ++codec) {
    EXPECT_GT(cpu.compress_byte[codec], 0);
    EXPECT_GT(cpu.compress_byte_random[codec], 0);
    EXPECT_GT(cpu.decompress_byte[codec], 0);
  }
  EXPECT_EQ(cpu.compress_byte[0], 0);
}

TEST(NodeCostsTest, NeedsAPlaceForItsMetadata) {
  EXPECT_EQ(MeasureNodeCosts({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(MeasureNodeCosts({.metadata_dir = "/proc/no/such/place"}).ok());
}

TEST(PacedTimesTest, EveryStepRunsOnceAndAFailureEndsIt) {
  std::vector<int> seen(40, 0);
  const auto times = PacedTimes::Measure(40, [&](size_t i) {
    ++seen[i];
    return absl::OkStatus();
  });
  ASSERT_TRUE(times.ok());
  EXPECT_THAT(seen, ::testing::Each(1));
  EXPECT_LE(times->QuantileNs(0), times->MedianNs());
  EXPECT_LE(times->MedianNs(), times->QuantileNs(1));

  EXPECT_EQ(PacedTimes::Measure(40, [](size_t) { return absl::DataLossError("gone"); }).status(),
            absl::DataLossError("gone"));
  EXPECT_FALSE(PacedTimes::Measure(0, [](size_t) { return absl::OkStatus(); }).ok());
}

}  // namespace
}  // namespace ebb::twin
