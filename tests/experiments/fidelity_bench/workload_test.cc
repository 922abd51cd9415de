#include "experiments/fidelity_bench/workload.h"

#include "experiments/fidelity_bench/gate_clock.h"
#include "experiments/fidelity_bench/live_file.h"
#include "experiments/fidelity_bench/twin_node.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace ebb::fidelity_bench {
namespace {

using ::testing::HasSubstr;

std::vector<Workload> Make(std::vector<std::string>& skipped) {
  auto workloads = MakeWorkloads("/no/such/folder", 0.5, skipped);
  EXPECT_TRUE(workloads.ok()) << workloads.status();
  return workloads.value_or(std::vector<Workload>{});
}

TEST(WorkloadTest, RequestsLieInTheVolumeInOrderAndHaveTheirContent) {
  std::vector<std::string> skipped;
  const std::vector<Workload> workloads = Make(skipped);
  ASSERT_GE(workloads.size(), 3u);
  for (const Workload& workload : workloads) {
    uint64_t last_ns = 0;
    for (size_t i = 0; i < workload.records.size(); ++i) {
      const trace::TraceRecord& record = workload.records[i];
      EXPECT_GE(record.time_ns, last_ns);
      last_ns = record.time_ns;
      EXPECT_LE(record.offset + record.bytes, workload.shape.volume_bytes);
      const bool writes = record.op == trace::TraceOp::kWrite;
      EXPECT_EQ(record.fingerprints.size(),
                writes ? trace::BlocksTouched(record.offset, record.bytes) : 0);
      EXPECT_EQ(workload.keeps_content[i].size(), record.fingerprints.size());
    }
    EXPECT_GT(workload.duration_ns, last_ns);
    EXPECT_EQ(workload.Stream().request_count(), workload.records.size());
  }
}

TEST(WorkloadTest, TracesThatAreNotThereAreNamed) {
  std::vector<std::string> skipped;
  for (const Workload& workload : Make(skipped)) EXPECT_FALSE(workload.recorded);
  EXPECT_GE(skipped.size(), 2u);
  EXPECT_THAT(skipped.front(), HasSubstr("/no/such/folder/"));
}

TEST(GateClockTest, ClosedItMovesBySleepingAndOpenItGoesOn) {
  GateClock clock;
  const uint64_t begin_ns = clock.MonotonicNs();
  clock.SleepUntilNs(begin_ns + 3600 * kNsPerS);  // at once
  EXPECT_EQ(clock.MonotonicNs(), begin_ns + 3600 * kNsPerS);
  clock.SleepUntilNs(begin_ns);
  EXPECT_EQ(clock.MonotonicNs(), begin_ns + 3600 * kNsPerS);

  clock.Open();
  const uint64_t open_ns = clock.MonotonicNs();
  EXPECT_GE(open_ns, begin_ns + 3600 * kNsPerS);
  clock.SleepUntilNs(open_ns + kNsPerMs);
  EXPECT_GE(clock.MonotonicNs(), open_ns + kNsPerMs);
}

// One short cell, live and simulated, and the file between.
TEST(FidelityBenchTest, ALiveRunAnswersTheLoadAsTheTwinDoes) {
  std::vector<std::string> skipped;
  const Workload workload = Make(skipped).front();
  const testing::ScratchFolder scratch;
  LiveNode node(scratch.path() + "/metadata");
  storage::Setting setting;
  setting.Set(storage::KnobId::kReadCacheBytes, static_cast<int64_t>(16 * kMiB));
  const RunTimes times{.settle_seconds = 0.05, .measure_seconds = 0.4, .warm_up_passes = 1};

  const auto live = node.Run(workload, setting, times, 1);
  const twin::NodeModel model = TwinModel({}, workload.shape);
  const auto twin = RunTwin(model, workload.Stream(), setting, times, 1);

  ASSERT_TRUE(live.ok()) << live.status();
  ASSERT_TRUE(twin.ok()) << twin.status();
  EXPECT_EQ(live->metrics.read.errors + live->metrics.write.errors, 0u);
  EXPECT_GT(live->metrics.read.ops, 0u);
  EXPECT_GT(live->metrics.write.ops, 0u);
  EXPECT_GT(twin->metrics.read.ops, 0u);
  EXPECT_GT(live->metrics.read.p99_ns, 100e3);  // a capacity device takes 300 us and more

  LiveResults results{.models = {model}, .seconds = 0.5, .times = times};
  results.workloads.push_back({.name = workload.name, .offered_bytes_per_s = 5});
  results.workloads[0].cells.push_back({.setting = 0, .live = {*live}});
  const std::string path = scratch.path() + "/live.json";
  ASSERT_TRUE(SaveLive(path, results).ok());
  const auto back = LoadLive(path);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->workloads[0].cells[0].live[0].metrics.read.p99_ns, live->metrics.read.p99_ns);
  EXPECT_EQ(back->models[0].cpu.read_block, model.cpu.read_block);
  EXPECT_EQ(back->times.measure_seconds, 0.4);
  EXPECT_EQ(LoadLive(path + "x").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ebb::fidelity_bench
