// What flows through a busy node, and what each mechanism does to it.
#include <cmath>

#include "tests/env/twin/twin_testing.h"

namespace ebb::twin {
namespace {

using storage::KnobId;

constexpr auto kMiBi = static_cast<int64_t>(kMiB);

// The sum of `windows` windows of a second after warming up and `settle` windows.
struct Totals {
  double write_bytes = 0;
  double read_ops = 0;
  double destaged_bytes = 0;
  double coalesced_bytes = 0;
  double dirty_growth_bytes = 0;
  double capacity_written = 0;
  double cpu_seconds = 0;
  double throttle_seconds = 0;
  double fill_max = 0;
  double fill_mean = 0;
  double hit_share = 0;  // mean
  double dram_share = 0;
  double read_mean_ns = 0;
  double read_p99_ns = 0;
  double in_flight = 0;
  double read_latency_seconds = 0;
  uint64_t readahead_blocks = 0;
  uint64_t copied_blocks = 0;
  uint64_t batches = 0;
  uint64_t compaction_steps = 0;
  uint64_t write_errors = 0;
};

Totals Measure(const SimulatorConfig& config, const RequestStream& load, int windows = 6,
               int settle = 3) {
  Totals sum;
  const auto simulator = MakeSimulator(config, load);
  if (simulator == nullptr) return sum;
  simulator->WarmUp(2);
  double dirty_bytes = 0;
  for (int i = 0; i < settle; ++i) {
    dirty_bytes = static_cast<double>(simulator->RunWindow(1).metrics.dirty_bytes);
  }
  for (int i = 0; i < windows; ++i) {
    const WindowResult seen = simulator->RunWindow(1);
    const env::WindowMetrics& m = seen.metrics;
    sum.write_bytes += static_cast<double>(m.write.bytes);
    sum.read_ops += static_cast<double>(m.read.ops);
    sum.destaged_bytes += static_cast<double>(m.destaged_bytes);
    sum.coalesced_bytes += static_cast<double>(seen.coalesced_blocks * kBlockBytes);
    sum.dirty_growth_bytes += static_cast<double>(m.dirty_bytes) - dirty_bytes;
    dirty_bytes = static_cast<double>(m.dirty_bytes);
    sum.capacity_written += static_cast<double>(m.capacity_written_bytes);
    sum.cpu_seconds += m.cpu_seconds;
    sum.throttle_seconds += m.throttle_seconds;
    sum.fill_max = std::max(sum.fill_max, seen.log_fill);
    sum.fill_mean += seen.log_fill / windows;
    sum.hit_share += m.read_hit_share / windows;
    const double read_blocks = static_cast<double>(seen.read_blocks_dram + seen.read_blocks_cache +
                                                   seen.read_blocks_capacity);
    if (read_blocks > 0) {
      sum.dram_share += static_cast<double>(seen.read_blocks_dram) / read_blocks / windows;
    }
    sum.read_mean_ns += m.read.mean_ns / windows;
    sum.read_p99_ns += m.read.p99_ns / windows;
    sum.in_flight += m.mean_in_flight / windows;
    sum.readahead_blocks += seen.readahead_blocks;
    sum.copied_blocks += seen.copied_blocks;
    sum.batches += seen.destage_batches;
    sum.compaction_steps += seen.compaction_steps;
    sum.write_errors += m.write.errors;
    EXPECT_LE(m.dirty_bytes, m.cache_space_bytes);
    EXPECT_LE(m.unique_bytes, m.logical_bytes);
    EXPECT_LE(seen.log_fill, 1.0);
  }
  return sum;
}

// Uniform writes, each to a block of its own for long, far beyond what the devices take.
env::SynthPhase TooManyWrites() {
  env::SynthPhase spec = SmallLoad();
  spec.duration_ns = 20 * kNsPerS;
  spec.ops_per_s = 150'000;
  spec.read_share = 0;
  spec.zipf_skew = 0;
  spec.working_set_bytes = 512 * kMiB;
  spec.flush_every = 1'000;
  return spec;
}

SimulatorConfig TooSmallNode() {
  SimulatorConfig config{.node = SmallNode(), .setting = {}};
  config.node.workers = 64;
  config.node.cores = 8;
  config.node.cache_bytes = 256 * kMiB;
  config.node.capacity_bytes = 8 * kGiB;  // no compaction
  config.setting.Set(KnobId::kCompression, 0);
  config.setting.Set(KnobId::kDedup, 0);
  config.setting.Set(KnobId::kNvmeReadShare, 0);
  return config;
}

// Goal: in the steady state nothing comes in that does not go out, whatever holds it back.
TEST(SimulatorFlowTest, AboveCapacityTheWriteRateIsTheDrainRate) {
  const RequestStream load = MakeLoad(TooManyWrites(), 512 * kMiB);
  for (const int softness : {0, 50, 100}) {
    SimulatorConfig config = TooSmallNode();
    config.node.capacity_device = "disk-7200";
    config.setting.Set(KnobId::kThrottleSoftness, softness);

    const Totals seen = Measure(config, load, 8, 4);

    // A block that is overwritten while its batch is stored counts as both.
    EXPECT_NEAR(seen.destaged_bytes + seen.coalesced_bytes + seen.dirty_growth_bytes,
                seen.write_bytes, 0.01 * seen.write_bytes)
        << softness;
    EXPECT_LT(seen.write_bytes, 0.8 * 8 * 150'000 * 4096) << softness;
    EXPECT_GT(seen.throttle_seconds, 1) << softness;
    EXPECT_EQ(seen.write_errors, 0u);
  }
}

TEST(SimulatorFlowTest, BelowCapacityNothingIsHeldBackAndTheFillStaysAtTheWatermark) {
  env::SynthPhase spec = TooManyWrites();
  spec.ops_per_s = 10'000;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  SimulatorConfig config = TooSmallNode();
  config.setting.Set(KnobId::kDestageWatermark, 40);

  const Totals seen = Measure(config, load);

  EXPECT_EQ(seen.throttle_seconds, 0);
  EXPECT_NEAR(seen.write_bytes, 6 * 10'000 * 4096.0, 0.02 * 6 * 10'000 * 4096.0);
  EXPECT_GT(seen.fill_mean, 0.34);
  EXPECT_LT(seen.fill_mean, 0.45);
}

TEST(SimulatorFlowTest, MoreDevicesAndExtentsInFlightDrainMore) {
  const RequestStream load = MakeLoad(TooManyWrites(), 512 * kMiB);
  // Batches large enough that their flush and commit do not count.
  SimulatorConfig two = TooSmallNode();
  two.node.capacity_device = "disk-7200";
  SimulatorConfig one = two;
  one.node.capacity_count = 1;
  one.node.capacity_bytes = 2 * kGiB;

  EXPECT_GT(Measure(two, load).write_bytes, 1.4 * Measure(one, load).write_bytes);
}

TEST(SimulatorFlowTest, ReadsOfAUniformSetHitAsOftenAsTheCacheIsLarge) {
  env::SynthPhase spec = SmallLoad();
  spec.read_share = 1;
  spec.zipf_skew = 0;
  spec.ops_per_s = 10'000;
  spec.working_set_bytes = 128 * kMiB;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  for (const int64_t cached : {16, 32, 64}) {
    SimulatorConfig config{.node = SmallNode(), .setting = {}};
    config.setting.Set(KnobId::kReadCacheBytes, cached * kMiBi);
    config.setting.Set(KnobId::kReadPolicy, 0);
    config.setting.Set(KnobId::kReadAdmission, 0);
    config.setting.Set(KnobId::kNvmeReadShare, 0);

    const Totals seen = Measure(config, load);

    EXPECT_NEAR(seen.dram_share, static_cast<double>(cached) / 128, 0.02) << cached;
  }
}

TEST(SimulatorFlowTest, LittlesLawHolds) {
  const RequestStream load = MakeLoad(SmallLoad(), 512 * kMiB);
  const auto simulator = MakeSimulator({.node = SmallNode(), .setting = {}}, load);
  simulator->WarmUp(1);

  const WindowResult seen = simulator->RunWindow(8);

  double request_seconds = 0;
  for (const env::OpWindow* op : {&seen.metrics.read, &seen.metrics.write, &seen.metrics.flush}) {
    request_seconds += static_cast<double>(op->ops) * op->mean_ns / 1e9;
  }
  EXPECT_NEAR(seen.metrics.mean_in_flight, request_seconds / 8, 1e-9);
  EXPECT_GT(seen.metrics.mean_in_flight, 0);
}

TEST(SimulatorFlowTest, AClosedLoopKeepsItsClientsBusy) {
  const RequestStream load = MakeLoad(SmallLoad(), 512 * kMiB);
  SimulatorConfig config{.node = SmallNode(), .setting = {}, .closed_loop_clients = 8};
  config.node.cores = 16;
  const auto simulator = MakeSimulator(config, load);

  const WindowResult seen = simulator->RunWindow(2);

  // Each of the 8 is either in the node or on its way.
  const double ops =
      static_cast<double>(seen.metrics.read.ops + seen.metrics.write.ops + seen.metrics.flush.ops);
  const double outside =
      ops / 2 *
      (config.node.cpu.nbd_request + static_cast<double>(config.node.client_overhead_ns)) / 1e9;
  EXPECT_NEAR(seen.metrics.mean_in_flight + outside, 8, 0.1);
}

TEST(SimulatorFlowTest, SameSeedSameNumbersAndAnotherSeedOthers) {
  const RequestStream load = MakeLoad(SmallLoad(), 512 * kMiB);
  const auto run = [&](uint64_t seed) {
    const auto simulator = MakeSimulator({.node = SmallNode(), .setting = {}, .seed = seed}, load);
    simulator->WarmUp(1);
    simulator->RunWindow(1);
    return simulator->RunWindow(3);
  };

  const WindowResult a = run(1);
  const WindowResult b = run(1);
  const WindowResult c = run(2);

  EXPECT_EQ(a.metrics.read.latency.Sparse(), b.metrics.read.latency.Sparse());
  EXPECT_EQ(a.metrics.read.latency.sum_ns(), b.metrics.read.latency.sum_ns());
  EXPECT_EQ(a.metrics.dirty_bytes, b.metrics.dirty_bytes);
  EXPECT_EQ(a.metrics.destaged_bytes, b.metrics.destaged_bytes);
  EXPECT_NE(a.metrics.read.latency.sum_ns(), c.metrics.read.latency.sum_ns());
}

TEST(SimulatorFlowTest, AHeavierCodecCostsProcessorAndSavesBandwidth) {
  env::SynthPhase spec = TooManyWrites();
  spec.ops_per_s = 10'000;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  SimulatorConfig config = TooSmallNode();
  config.node.cores = 2;
  const Totals off = Measure(config, load);
  config.setting.Set(KnobId::kCompression, 1);
  const Totals lz4 = Measure(config, load);
  config.setting.Set(KnobId::kCompression, 3);
  const Totals zstd = Measure(config, load);

  EXPECT_GT(lz4.cpu_seconds, off.cpu_seconds);
  EXPECT_GT(zstd.cpu_seconds, lz4.cpu_seconds);
  EXPECT_LT(lz4.capacity_written / lz4.destaged_bytes, 0.75);
  EXPECT_LT(zstd.capacity_written / zstd.destaged_bytes, lz4.capacity_written / lz4.destaged_bytes);
}

TEST(SimulatorFlowTest, DedupStoresLess) {
  env::SynthPhase spec = TooManyWrites();
  spec.ops_per_s = 10'000;
  spec.duplicate_share = 0.5;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  SimulatorConfig config = TooSmallNode();
  const Totals off = Measure(config, load);
  config.setting.Set(KnobId::kDedup, 1);
  const Totals on = Measure(config, load);

  EXPECT_LT(on.capacity_written, 0.6 * off.capacity_written);
  EXPECT_GT(on.cpu_seconds, off.cpu_seconds);
}

TEST(SimulatorFlowTest, TheReadShareKeepsCopiesThatHit) {
  env::SynthPhase spec = SmallLoad();
  spec.read_share = 1;
  spec.ops_per_s = 5'000;
  spec.working_set_bytes = 48 * kMiB;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  SimulatorConfig config{.node = SmallNode(), .setting = {}};
  config.setting.Set(KnobId::kReadCacheBytes, 0);
  config.setting.Set(KnobId::kNvmeReadShare, 0);
  const Totals without = Measure(config, load);
  config.setting.Set(KnobId::kNvmeReadShare, 90);
  const Totals with = Measure(config, load);

  EXPECT_EQ(without.hit_share, 0);
  EXPECT_GT(with.hit_share, 0.8);
  EXPECT_LT(with.read_mean_ns, without.read_mean_ns);
}

TEST(SimulatorFlowTest, ReadaheadServesAScan) {
  env::SynthPhase spec = SmallLoad();
  spec.read_share = 1;
  spec.random_share = 0;
  spec.streams = 4;
  spec.ops_per_s = 1'000;
  spec.working_set_bytes = 512 * kMiB;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  SimulatorConfig config{.node = SmallNode(), .setting = {}};
  config.node.capacity_device = "disk-7200";
  config.setting.Set(KnobId::kNvmeReadShare, 0);
  config.setting.Set(KnobId::kReadaheadBlocks, 0);
  const Totals without = Measure(config, load);
  config.setting.Set(KnobId::kReadaheadBlocks, 64);
  const Totals with = Measure(config, load);

  EXPECT_EQ(without.readahead_blocks, 0u);
  EXPECT_GT(with.dram_share, 0.9);
  EXPECT_LT(with.read_mean_ns, 0.5 * without.read_mean_ns);
  config.setting.Set(KnobId::kSequentialBypassBytes, 64 * 1024);
  EXPECT_LT(Measure(config, load).dram_share, 0.1) << "a long stream leaves no copies";
}

TEST(SimulatorFlowTest, FlushesShareADeviceFlushWhenTheyWaitForCompany) {
  env::SynthPhase spec = SmallLoad();
  spec.read_share = 0;
  spec.flush_every = 1;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  SimulatorConfig config{.node = SmallNode(), .setting = {}, .closed_loop_clients = 16};
  config.node.cache_speed = 0.02;  // a flush of 0.75 ms
  const auto flushes = [&](int64_t group_us) {
    config.setting.Set(KnobId::kFlushGroupUs, group_us);
    const auto simulator = MakeSimulator(config, load);
    simulator->RunWindow(1);
    return simulator->RunWindow(2).metrics.flush;
  };

  const env::OpWindow now = flushes(0);
  const env::OpWindow waiting = flushes(5'000);

  EXPECT_GT(now.ops, 0u);
  EXPECT_NE(now.mean_ns, waiting.mean_ns);
}

// Goal: what was fitted is the device as it is, also where the node says that it is a class made
// faster.
TEST(SimulatorFlowTest, AFittedDeviceIsNotMadeFaster) {
  env::SynthPhase spec = SmallLoad();
  spec.read_share = 1;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  const auto mean_ns = [&](bool fitted, double speed) {
    SimulatorConfig config{.node = SmallNode(), .setting = {}};
    if (fitted) {
      config.node.capacity_fitted = storage::ServiceParametersOf(config.node.capacity_device);
    }
    config.node.capacity_speed = speed;
    const auto simulator = MakeSimulator(config, load);
    return simulator->RunWindow(1).metrics.read.mean_ns;
  };

  EXPECT_EQ(mean_ns(true, 10), mean_ns(false, 1));
  EXPECT_LT(mean_ns(false, 10), 0.5 * mean_ns(false, 1));
}

TEST(SimulatorFlowTest, CompactionGivesSpaceBackWhenDevicesRunFull) {
  env::SynthPhase spec = TooManyWrites();
  spec.ops_per_s = 20'000;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  SimulatorConfig config = TooSmallNode();
  config.node.cache_bytes = 64 * kMiB;
  config.node.capacity_bytes = 420 * kMiB;  // two of them for 512 MiB

  const Totals seen = Measure(config, load, 10);

  EXPECT_GT(seen.compaction_steps, 0u);
  EXPECT_EQ(seen.write_errors, 0u);
  EXPECT_GT(seen.capacity_written, 1.05 * seen.destaged_bytes) << "moving costs writes";
}

TEST(SimulatorFlowTest, PolitenessYieldsToReads) {
  env::SynthPhase spec = SmallLoad();
  spec.duration_ns = 40 * kNsPerS;
  spec.read_share = 0.1;
  spec.zipf_skew = 0;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  SimulatorConfig config{.node = SmallNode(), .setting = {}};
  config.node.capacity_device = "disk-7200";
  config.setting.Set(KnobId::kDestagePoliteness, 0);
  const Totals rude = Measure(config, load, 8);
  config.setting.Set(KnobId::kDestagePoliteness, 100);
  const Totals polite = Measure(config, load, 8);

  EXPECT_GT(polite.fill_mean, rude.fill_mean);
}

TEST(SimulatorFlowTest, ScrubbingTakesBandwidthFromReads) {
  env::SynthPhase spec = SmallLoad();
  spec.read_share = 1;
  spec.ops_per_s = 3'000;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  SimulatorConfig config{.node = SmallNode(), .setting = {}};
  const Totals without = Measure(config, load);
  config.setting.Set(KnobId::kScrubMibps, 512);
  const Totals with = Measure(config, load);

  EXPECT_GT(with.read_mean_ns, 1.1 * without.read_mean_ns);
}

TEST(SimulatorFlowTest, TrimmedBlocksFreeTheirSpace) {
  std::vector<trace::TraceRecord> records;
  for (uint64_t i = 0; i < 256; ++i) {
    records.push_back({.time_ns = i * kNsPerMs,
                       .op = trace::TraceOp::kWrite,
                       .offset = i * 64 * kKiB,
                       .bytes = 64 * kKiB});
  }
  records.push_back({.time_ns = kNsPerS, .op = trace::TraceOp::kTrim, .bytes = 16 * kMiB});
  const RequestStream load = MakeLoad(records, 512 * kMiB, 100 * kNsPerS);
  SimulatorConfig config{.node = SmallNode(), .setting = {}};
  config.node.prefilled = false;
  const auto simulator = MakeSimulator(config, load);

  simulator->RunWindow(0.9);
  const WindowResult written = simulator->RunWindow(0.05);
  simulator->RunWindow(10);
  const WindowResult trimmed = simulator->RunWindow(5);

  EXPECT_EQ(written.metrics.dirty_bytes, 16 * kMiB);
  EXPECT_EQ(trimmed.metrics.dirty_bytes, 0u);
  EXPECT_EQ(trimmed.metrics.logical_bytes, 0u);
}

TEST(SimulatorFlowTest, AnIdleNodeDestagesEverything) {
  const RequestStream load = MakeLoad({{.op = trace::TraceOp::kWrite, .offset = 0, .bytes = kMiB}},
                                      512 * kMiB, 1000 * kNsPerS);
  const auto simulator = MakeSimulator({.node = SmallNode(), .setting = {}}, load);

  const WindowResult first = simulator->RunWindow(1);
  const WindowResult later = simulator->RunWindow(9);

  EXPECT_EQ(first.metrics.dirty_bytes, kMiB);
  EXPECT_EQ(later.metrics.dirty_bytes, 0u);
  EXPECT_EQ(later.metrics.destaged_bytes, kMiB);
}

TEST(SimulatorFlowTest, WarmUpFillsTheLogToTheWatermark) {
  env::SynthPhase spec = SmallLoad();
  spec.duration_ns = 60 * kNsPerS;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);
  SimulatorConfig config{.node = SmallNode(), .setting = {}};
  config.setting.Set(KnobId::kDestageWatermark, 60);
  const auto simulator = MakeSimulator(config, load);

  simulator->WarmUp(2);
  const WindowResult seen = simulator->RunWindow(0.01);

  EXPECT_GT(seen.log_fill, 0.5);
  EXPECT_LT(seen.log_fill, 0.63);
}

// Writes that close groups and reads that are copied cost the processor much.
TEST(SimulatorFlowTest, WarmUpTakesNoTime) {
  env::SynthPhase phase = SmallLoad();
  phase.read_share = 0.5;
  const RequestStream load = MakeLoad(phase, SmallNode().volume_bytes);
  const auto simulator = MakeSimulator({.node = SmallNode(), .setting = {}}, load);

  simulator->WarmUp(1);
  const env::WindowMetrics first = simulator->RunWindow(1).metrics;

  uint64_t asked = 0;
  for (const Request& request : load.requests()) asked += request.time_ns < kNsPerS ? 1 : 0;
  const double served = static_cast<double>(first.read.ops + first.write.ops);
  EXPECT_NEAR(served, static_cast<double>(asked), 5);
}

// A block that stays dirty keeps every segment behind it from counting as clean.
TEST(SimulatorFlowTest, CopiesBehindADirtyBlockDoNotEndWithTheWatermark) {
  SimulatorConfig config{.node = SmallNode(), .setting = {}};
  config.setting.Set(KnobId::kNvmeReadShare, 70);
  config.setting.Set(KnobId::kDestageWatermark, 6);
  config.setting.Set(KnobId::kReadCacheBytes, 0);
  std::vector<trace::TraceRecord> records;
  records.push_back({.op = trace::TraceOp::kWrite, .offset = 0, .bytes = 4096});
  constexpr uint64_t kReads = 8'000;
  for (uint64_t i = 1; i <= kReads; ++i) {
    records.push_back({.time_ns = i * 100'000,
                       .op = trace::TraceOp::kRead,
                       .offset = i * 7919 % 131'072 * 4096,
                       .bytes = 4096});
  }
  const RequestStream load = MakeLoad(records, SmallNode().volume_bytes);
  const auto simulator = MakeSimulator(config, load);

  simulator->WarmUp(1);
  const WindowResult window = simulator->RunWindow(1);

  EXPECT_GT(window.metrics.read_hit_share, 0.9);
}

// Goal: what was warmed up is not what is measured. Method: reads of one half of the volume, then
// of the other.
TEST(SimulatorFlowTest, WarmUpOfAPartLeavesTheRestOfTheLoad) {
  std::vector<trace::TraceRecord> records;
  for (uint64_t i = 0; i < 4'000; ++i) {
    const uint64_t half = i < 2'000 ? 0 : 256 * kMiB;
    records.push_back(
        {.time_ns = i * kNsPerMs, .offset = half + i * 7919 % 500 * 8192, .bytes = 4096});
  }
  const RequestStream load = MakeLoad(records, 512 * kMiB, 4 * kNsPerS);
  SimulatorConfig config{.node = SmallNode(), .setting = {}, .keep_stream = true};
  const auto simulator = MakeSimulator(config, load);

  simulator->WarmUp(1, 0.5);
  const WindowResult rest = simulator->RunWindow(2);
  const WindowResult again = simulator->RunWindow(2);

  ASSERT_NEAR(static_cast<double>(rest.stream.size()), 2'000, 2);
  EXPECT_GE(rest.stream.front().offset, 256 * kMiB);
  EXPECT_LT(rest.metrics.read_hit_share, 0.95) << "nothing of it was read before";
  ASSERT_NEAR(static_cast<double>(again.stream.size()), 2'000, 4);
  EXPECT_LT(again.stream.back().offset, 256 * kMiB) << "then the load begins anew";
}

TEST(SimulatorFlowTest, RefusesWhatCannotBe) {
  const RequestStream load = MakeLoad(SmallLoad(), 512 * kMiB);
  SimulatorConfig config{.node = SmallNode(), .setting = {}};
  config.node.capacity_bytes = 128 * kMiB;
  EXPECT_EQ(Simulator::Make(config, load).status().code(), absl::StatusCode::kInvalidArgument);
  config = {.node = SmallNode(), .setting = {}};
  config.node.cache_device = "tape";
  EXPECT_FALSE(Simulator::Make(config, load).ok());
  config = {.node = SmallNode(), .setting = {}};
  config.setting.Set(KnobId::kDestageWatermark, 99);
  EXPECT_FALSE(Simulator::Make(config, load).ok());
}

}  // namespace
}  // namespace ebb::twin
