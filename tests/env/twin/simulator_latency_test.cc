// What a single request takes on an idle node, against the closed form.
#include <cmath>

#include "tests/env/twin/twin_testing.h"

namespace ebb::twin {
namespace {

using storage::KnobId;
using trace::TraceOp;

// One request of 4 KiB every 50 ms, to blocks that are all different.
RequestStream Sparse(TraceOp op, uint64_t count) {
  std::vector<trace::TraceRecord> records;
  for (uint64_t i = 0; i < count; ++i) {
    records.push_back({.time_ns = (i + 1) * 50 * kNsPerMs,
                       .op = op,
                       .offset = i * 7919 % (512 * kMiB / 8192) * 8192,
                       .bytes = 4096});
  }
  return MakeLoad(records, 512 * kMiB, (count + 1) * 50 * kNsPerMs);
}

// No caches, no background.
SimulatorConfig Bare() {
  SimulatorConfig config{.node = SmallNode(), .setting = {}};
  config.setting.Set(KnobId::kReadCacheBytes, 0);
  config.setting.Set(KnobId::kNvmeReadShare, 0);
  config.setting.Set(KnobId::kReadaheadBlocks, 0);
  config.setting.Set(KnobId::kCompression, 0);
  config.setting.Set(KnobId::kDedup, 0);
  config.setting.Set(KnobId::kCompactionPoliteness, 100);
  return config;
}

double OwnReadNs(const CpuCosts& cpu) { return cpu.read_request + cpu.read_block; }

TEST(SimulatorLatencyTest, AMissOnIdleFlashTakesTheModelsTime) {
  const SimulatorConfig config = Bare();
  const RequestStream load = Sparse(TraceOp::kRead, 400);
  const auto simulator = MakeSimulator(config, load);

  const WindowResult seen = simulator->RunWindow(20.02);

  // sata-ssd: 75 us from the die, 15 us controller, link 2.7 us + 4096 B at 0.55 GB/s.
  const double device_ns = 75e3 + 15e3 + 2.7e3 + 4096 / 0.55;
  EXPECT_EQ(seen.metrics.read.ops, 400u);
  EXPECT_NEAR(seen.metrics.read.mean_ns,
              device_ns + OwnReadNs(config.node.cpu) + config.node.cpu.device_wait, 2e3);
  EXPECT_EQ(seen.read_blocks_capacity, 400u);
  EXPECT_EQ(seen.metrics.read_hit_share, 0);
}

TEST(SimulatorLatencyTest, AMissOnAnIdleDiskTakesSeekRotationAndTransfer) {
  SimulatorConfig config = Bare();
  config.node.capacity_device = "disk-7200";
  const RequestStream load = Sparse(TraceOp::kRead, 1'000);
  const auto simulator = MakeSimulator(config, load);

  const WindowResult seen = simulator->RunWindow(50.02);

  // Data sheets of the class: 12.6 ms. Only a part of the disk is in use, so seeks are shorter.
  EXPECT_GT(seen.metrics.read.mean_ns, 7e6);
  EXPECT_LT(seen.metrics.read.mean_ns, 12.8e6);
}

TEST(SimulatorLatencyTest, AWriteIsAnsweredFromMemory) {
  SimulatorConfig config = Bare();
  config.node.cpu.group_close = 0;  // TheWriteThatFillsAGroupHandsItToTheDevice
  const RequestStream load = Sparse(TraceOp::kWrite, 400);
  const auto simulator = MakeSimulator(config, load);

  const WindowResult seen = simulator->RunWindow(20.02);

  EXPECT_EQ(seen.metrics.write.ops, 400u);
  EXPECT_NEAR(seen.metrics.write.mean_ns,
              config.node.cpu.write_request + config.node.cpu.write_block, 1);
  EXPECT_EQ(seen.metrics.throttle_seconds, 0);
}

TEST(SimulatorLatencyTest, AReadOfTheLogIsTheCacheDevices) {
  const SimulatorConfig config = Bare();
  std::vector<trace::TraceRecord> records;
  // 2,000 blocks written at once, then read one by one; no destage in between.
  for (uint64_t i = 0; i < 2'000; ++i) {
    records.push_back(
        {.time_ns = i * 1000, .op = TraceOp::kWrite, .offset = i * 4096, .bytes = 4096});
  }
  for (uint64_t i = 0; i < 100; ++i) {
    records.push_back({.time_ns = 10 * kNsPerMs + i * kNsPerMs, .offset = i * 4096, .bytes = 4096});
  }
  const RequestStream load = MakeLoad(records, 512 * kMiB, 10 * kNsPerS);
  const auto simulator = MakeSimulator(config, load);

  const WindowResult seen = simulator->RunWindow(0.12);

  EXPECT_EQ(seen.metrics.read.ops, 100u);
  EXPECT_EQ(seen.read_blocks_cache, 100u);
  // nvme: 68 us die, 9 us controller, 0.28 us command, 4 KiB at 3.2 GB/s.
  EXPECT_NEAR(
      seen.metrics.read.mean_ns,
      68e3 + 9e3 + 0.28e3 + 1.28e3 + OwnReadNs(config.node.cpu) + config.node.cpu.device_wait, 3e3);
}

TEST(SimulatorLatencyTest, WhatWasJustWrittenIsReadFromItsBuffer) {
  const SimulatorConfig config = Bare();
  const RequestStream load = MakeLoad({{.op = TraceOp::kWrite, .offset = 0, .bytes = 4096},
                                       {.time_ns = kNsPerMs, .offset = 0, .bytes = 4096}},
                                      512 * kMiB, kNsPerS);
  const auto simulator = MakeSimulator(config, load);

  const WindowResult seen = simulator->RunWindow(0.5);

  EXPECT_NEAR(seen.metrics.read.mean_ns, OwnReadNs(config.node.cpu), 1);
  EXPECT_EQ(seen.read_blocks_cache, 1u);
}

TEST(SimulatorLatencyTest, ARepeatedReadIsMemorys) {
  SimulatorConfig config = Bare();
  config.setting.Set(KnobId::kReadCacheBytes, 32 * static_cast<int64_t>(kMiB));
  config.setting.Set(KnobId::kReadAdmission, 0);
  const RequestStream load = MakeLoad({{.time_ns = kNsPerMs, .offset = 0, .bytes = 4096},
                                       {.time_ns = 50 * kNsPerMs, .offset = 0, .bytes = 4096}},
                                      512 * kMiB, kNsPerS);
  const auto simulator = MakeSimulator(config, load);

  const WindowResult seen = simulator->RunWindow(0.5);

  EXPECT_EQ(seen.read_blocks_dram, 1u);
  EXPECT_EQ(seen.read_blocks_capacity, 1u);
  EXPECT_DOUBLE_EQ(seen.metrics.read_hit_share, 0.5);
}

TEST(SimulatorLatencyTest, AFlushWaitsForItsGroupAndTheDevice) {
  const SimulatorConfig config = Bare();
  const RequestStream load = MakeLoad({{.op = TraceOp::kWrite, .offset = 0, .bytes = 4096},
                                       {.time_ns = kNsPerMs, .op = TraceOp::kFlush},
                                       {.time_ns = 10 * kNsPerMs, .op = TraceOp::kFlush}},
                                      512 * kMiB, kNsPerS);
  const auto simulator = MakeSimulator(config, load);

  const WindowResult seen = simulator->RunWindow(0.5);

  ASSERT_EQ(seen.metrics.flush.ops, 2u);
  // The first: group of two blocks (18 us and the link), flush 15 us, waking; the second has
  // nothing to do.
  const double group_ns = 18e3 + 0.28e3 + 8192 / 3.2;
  EXPECT_NEAR(seen.metrics.flush.mean_ns * 2,
              2 * config.node.cpu.flush_request + group_ns + 15e3 + config.node.cpu.device_wait,
              2e3);
}

TEST(SimulatorLatencyTest, AFlushThatARunningOneCoversIsAnsweredWithIt) {
  const SimulatorConfig config = Bare();
  // The second flush comes while the first one waits for the device, and nothing was written in
  // between: it ends with the first instead of asking for a group and a device flush of its own.
  const RequestStream load = MakeLoad({{.op = TraceOp::kWrite, .offset = 0, .bytes = 4096},
                                       {.time_ns = kNsPerMs, .op = TraceOp::kFlush},
                                       {.time_ns = kNsPerMs + 25'000, .op = TraceOp::kFlush}},
                                      512 * kMiB, kNsPerS);
  const auto simulator = MakeSimulator(config, load);

  const WindowResult seen = simulator->RunWindow(0.5);

  ASSERT_EQ(seen.metrics.flush.ops, 2u);
  const double group_ns = 18e3 + 0.28e3 + 8192 / 3.2;
  const double one_ns =
      config.node.cpu.flush_request + group_ns + 15e3 + config.node.cpu.device_wait;
  EXPECT_NEAR(seen.metrics.flush.mean_ns * 2, one_ns + (one_ns - 25e3), 4e3);
}

TEST(SimulatorLatencyTest, TheWriteThatFillsAGroupHandsItToTheDevice) {
  SimulatorConfig config = Bare();
  config.node.cpu.group_close = 500'000;
  std::vector<trace::TraceRecord> records;
  for (uint64_t i = 0; i < 63; ++i) {
    records.push_back(
        {.time_ns = (i + 1) * 5'000, .op = TraceOp::kWrite, .offset = i * 4096, .bytes = 4096});
  }
  const RequestStream load = MakeLoad(records, 512 * kMiB);
  const auto simulator = MakeSimulator(config, load);

  const WindowResult seen = simulator->RunWindow(0.5);

  // A group has 63 blocks: the last write alone is slow.
  ASSERT_EQ(seen.metrics.write.ops, 63u);
  EXPECT_LT(seen.metrics.write.p50_ns, 10e3);
  EXPECT_GT(seen.metrics.write.latency.QuantileNs(1), 450e3);
  EXPECT_LT(seen.metrics.write.latency.QuantileNs(0.97), 20e3);
}

TEST(SimulatorLatencyTest, AFuaWriteIsAsSlowAsAFlush) {
  const SimulatorConfig config = Bare();
  const RequestStream load =
      MakeLoad({{.op = TraceOp::kWrite, .fua = true, .offset = 0, .bytes = 4096}}, 512 * kMiB);
  const auto simulator = MakeSimulator(config, load);

  const WindowResult seen = simulator->RunWindow(0.5);

  ASSERT_EQ(seen.metrics.write.ops, 1u);
  EXPECT_GT(seen.metrics.write.mean_ns, 33e3);
}

TEST(SimulatorLatencyTest, APartialWriteReadsFirst) {
  const SimulatorConfig config = Bare();
  const RequestStream load = MakeLoad(
      {{.time_ns = kNsPerMs, .op = TraceOp::kWrite, .offset = 512, .bytes = 512}}, 512 * kMiB);
  const auto simulator = MakeSimulator(config, load);

  const WindowResult seen = simulator->RunWindow(0.5);

  ASSERT_EQ(seen.metrics.write.ops, 1u);
  EXPECT_GT(seen.metrics.write.mean_ns, 90e3);
  EXPECT_EQ(seen.metrics.write.bytes, 512u);
}

TEST(SimulatorLatencyTest, ABlockReadInPartIsAReadOfItsOwn) {
  const SimulatorConfig config = Bare();
  const auto latency_ns = [&](uint64_t offset, uint64_t bytes) {
    const RequestStream load =
        MakeLoad({{.time_ns = kNsPerMs, .op = TraceOp::kRead, .offset = offset, .bytes = bytes}},
                 512 * kMiB);
    const WindowResult seen = MakeSimulator(config, load)->RunWindow(0.5);
    EXPECT_EQ(seen.metrics.read.ops, 1u);
    EXPECT_EQ(seen.metrics.read.bytes, bytes);
    return seen.metrics.read.mean_ns;
  };
  const double aligned_ns = latency_ns(kMiB, 16 << 10);

  // Head, middle and tail, one after the other.
  EXPECT_NEAR(latency_ns(kMiB + 512, 16 << 10), 3 * aligned_ns, 0.2 * 3 * aligned_ns);
  EXPECT_NEAR(latency_ns(kMiB, (16 << 10) - 512), 2 * aligned_ns, 0.2 * 2 * aligned_ns);
  EXPECT_NEAR(latency_ns(kMiB + 512, 512), aligned_ns, 0.2 * aligned_ns);
}

TEST(SimulatorLatencyTest, ReadsWaitForAWorkerThatAThrottledWriteHolds) {
  // Reads of DRAM beside many times more writes than the devices drain.
  SimulatorConfig config{.node = SmallNode(), .setting = {}};
  config.node.capacity_device = "disk-7200";
  config.node.workers = 2;
  env::SynthPhase spec = SmallLoad();
  spec.ops_per_s = 100'000;
  spec.duration_ns = 4 * kNsPerS;
  spec.read_share = 0.1;
  spec.working_set_bytes = 128 * kMiB;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  const auto simulator = MakeSimulator(config, load);
  simulator->WarmUp(2);

  simulator->RunWindow(2);
  const WindowResult seen = simulator->RunWindow(2);

  EXPECT_GT(seen.late_ns, 100 * kNsPerMs);
  EXPECT_LE(seen.metrics.mean_in_flight, 2.01);
}

}  // namespace
}  // namespace ebb::twin
