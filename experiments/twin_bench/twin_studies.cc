#include "experiments/twin_bench/twin_studies.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/cpu_time.h"
#include "base/status.h"
#include "base/units.h"
#include "engine/goal/goal.h"
#include "env/twin/simulator.h"
#include "env/twin/sweep.h"
#include "env/twin/trace_load.h"
#include "env/twin/twin_environment.h"
#include "fmt/format.h"
#include "storage-backend/policy/lru.h"

namespace ebb::twin_bench {
namespace {

using env::SynthPhase;
using storage_bench::Samples;
using twin::NodeModel;
using twin::RequestStream;
using twin::SimulatorConfig;

constexpr uint32_t kDivisor = 10;
constexpr const char* kClasses[] = {"disk-7200", "sata-ssd", "nvme"};

double NowSeconds() { return static_cast<double>(RealClock().MonotonicNs()) / 1e9; }

// A gibibyte of cache before two devices, 8 GiB of volume, all of it written before.
NodeModel BenchNode(const std::string& capacity_device) {
  NodeModel node;
  node.capacity_device = capacity_device;
  return node;
}

// 70 % reads of 4 KiB, Zipf 0.9 over 4 GiB, 10,000 a second.
SynthPhase BenchLoad(const BenchOptions& options) {
  SynthPhase load;
  load.duration_ns = (options.quick ? 6 : 60) * kNsPerS;
  load.ops_per_s = 10'000;
  load.working_set_bytes = 4 * kGiB;
  load.zipf_skew = 0.9;
  load.flush_every = 100;
  load.duplicate_share = 0.1;
  load.compressible_share = 0.6;
  return load;
}

absl::StatusOr<RequestStream> Synthesise(const BenchOptions& options, const SynthPhase& phase) {
  return twin::SynthesiseLoad({.seed = 1 + options.repeat, .phases = {phase}},
                              NodeModel().volume_bytes);
}

double Seconds(const SynthPhase& phase) { return static_cast<double>(phase.duration_ns) / 1e9; }

// The default keeps the log's place; the policy object is the node's, the index a plain hash map.
double LruOpsPerS(const RequestStream& load, uint64_t cache_bytes) {
  storage::LruPolicy lru;
  const auto slots = static_cast<uint32_t>(cache_bytes / twin::kBlockBytes);
  lru.Resize(slots);
  absl::flat_hash_map<uint64_t, uint32_t> slot_of;
  slot_of.reserve(slots);
  std::vector<uint64_t> block_of(slots);
  uint32_t used = 0;
  const double begin = ProcessCpuSeconds();
  for (const twin::Request& request : load.requests()) {
    for (uint32_t i = 0; i < request.blocks; ++i) {
      const uint64_t block = request.first_block + i;
      const auto [found, is_new] = slot_of.try_emplace(block, 0);
      if (!is_new) {
        lru.Touch(found->second);
        continue;
      }
      uint32_t slot = used;
      if (used < slots) {
        ++used;
      } else {
        slot = lru.Evict();
        slot_of.erase(block_of[slot]);
      }
      slot_of[block] = slot;
      block_of[slot] = block;
      lru.Insert(slot, block);
    }
  }
  return static_cast<double>(load.block_operations()) / (ProcessCpuSeconds() - begin);
}

struct Timed {
  double run_s = 0;    // of the measured part alone
  double whole_s = 0;  // with making the node and warming it up
  uint64_t block_operations = 0;
};

absl::StatusOr<Timed> TimeRun(const SimulatorConfig& config, const RequestStream& load,
                              double seconds) {
  Timed timed;
  const double begin = ProcessCpuSeconds();
  EBB_ASSIGN_OR_RETURN(const auto simulator, twin::Simulator::Make(config, load));
  simulator->WarmUp(2);
  const double warm = ProcessCpuSeconds();
  simulator->RunWindow(seconds);
  const double end = ProcessCpuSeconds();
  timed.run_s = end - warm;
  timed.whole_s = end - begin;
  timed.block_operations = simulator->block_operations();
  return timed;
}

// A load for each way in which sampling could go wrong.
std::vector<std::pair<std::string, SynthPhase>> SamplingLoads(const BenchOptions& options) {
  SynthPhase mixed = BenchLoad(options);
  SynthPhase writes = mixed;
  writes.read_share = 0.2;
  writes.ops_per_s = 20'000;
  SynthPhase scans = mixed;
  scans.random_share = 0.7;
  scans.streams = 4;
  scans.sizes = {{16 << 10, 1}};
  scans.ops_per_s = 4'000;
  return {{"mixed", mixed}, {"writes", writes}, {"scans", scans}};
}

}  // namespace

absl::Status MeasureSpeed(const BenchOptions& options, Samples& samples) {
  const SynthPhase spec = BenchLoad(options);
  EBB_ASSIGN_OR_RETURN(const RequestStream load, Synthesise(options, spec));
  const double begin = ProcessCpuSeconds();
  const RequestStream sample = load.Sample(kDivisor, 1 + options.repeat);
  samples.Add("sampling.prepare_s", ProcessCpuSeconds() - begin);
  Timed full;
  Timed sampled;
  for (const char* device : kClasses) {
    const SimulatorConfig config{.node = BenchNode(device), .setting = {}};
    EBB_ASSIGN_OR_RETURN(const Timed one, TimeRun(config, load, Seconds(spec)));
    EBB_ASSIGN_OR_RETURN(const Timed tenth, TimeRun(config, sample, Seconds(spec)));
    samples.Add(fmt::format("full.{}.ops_per_s", device),
                static_cast<double>(one.block_operations) / one.run_s);
    samples.Add(fmt::format("sampled.{}.speedup", device), one.whole_s / tenth.whole_s);
    full.run_s += one.run_s;
    full.whole_s += one.whole_s;
    full.block_operations += one.block_operations;
    sampled.run_s += tenth.run_s;
    sampled.whole_s += tenth.whole_s;
  }
  samples.Add("full.ops_per_s", static_cast<double>(full.block_operations) / full.run_s);
  samples.Add("lru.ops_per_s", LruOpsPerS(load, NodeModel().cache_bytes));
  samples.Add("sampled.speedup", full.whole_s / sampled.whole_s);
  samples.Add("sampled.run_speedup", full.run_s / sampled.run_s);
  return absl::OkStatus();
}

absl::Status MeasureSampling(const BenchOptions& options, Samples& samples) {
  const env::KnobSpace space = twin::TwinKnobSpace(0);
  const std::vector<env::Setting> settings = twin::SpreadSettings(
      space, space.Default(), options.quick ? 2 : 8, /*all_knobs=*/true, 11 + options.repeat);
  twin::RunLength length{.settle_seconds = 5, .measure_seconds = 30};
  std::vector<double> errors;
  for (const auto& [name, spec] : SamplingLoads(options)) {
    EBB_ASSIGN_OR_RETURN(const RequestStream load, Synthesise(options, spec));
    const RequestStream sample = load.Sample(kDivisor, 1 + options.repeat);
    std::vector<double> of_load;
    for (const char* device : kClasses) {
      const SimulatorConfig config{.node = BenchNode(device), .setting = {}};
      const auto full_base = twin::RunSetting(config, space.Default(), load, length);
      const auto sampled_base = twin::RunSetting(config, space.Default(), sample, length);
      for (const env::Setting& setting : settings) {
        const auto full = twin::RunSetting(config, setting, load, length);
        const auto sampled = twin::RunSetting(config, setting, sample, length);
        EBB_RETURN_IF_ERROR(full.status);
        EBB_RETURN_IF_ERROR(sampled.status);
        constexpr auto kGoal = agents::GoalKind::kBalanced;
        const double moved =
            engine::LogIndexAgainst(kGoal, sampled.window.metrics, sampled_base.window.metrics) -
            engine::LogIndexAgainst(kGoal, full.window.metrics, full_base.window.metrics);
        of_load.push_back(std::abs(std::expm1(moved)));
      }
    }
    samples.Add(fmt::format("sampled.index_error.{}", name), storage_bench::Median(of_load));
    errors.insert(errors.end(), of_load.begin(), of_load.end());
  }
  std::sort(errors.begin(), errors.end());
  samples.Add("sampled.index_error", storage_bench::Median(errors));
  samples.Add("sampled.index_error_p90", errors[errors.size() * 9 / 10]);
  samples.Add("sampled.index_error_max", errors.back());
  return absl::OkStatus();
}

absl::Status MeasureSweep(const BenchOptions& options, Samples& samples) {
  const SynthPhase spec = BenchLoad(options);
  const env::KnobSpace space = twin::TwinKnobSpace(0);
  const size_t count = options.quick ? 100 : 1'000;
  const std::vector<env::Setting> settings =
      twin::SpreadSettings(space, space.Default(), count, /*all_knobs=*/false, 3 + options.repeat);
  const double cpu_begin = ProcessCpuSeconds();
  const double begin = NowSeconds();
  EBB_ASSIGN_OR_RETURN(const RequestStream load, Synthesise(options, spec));
  const RequestStream sample = load.Sample(kDivisor, 1 + options.repeat);
  const SimulatorConfig config{.node = BenchNode("sata-ssd"), .setting = {}};
  const std::vector<twin::SweepResult> results =
      twin::RunSweep(config, settings, sample,
                     {.settle_seconds = 0, .measure_seconds = Seconds(spec)}, options.threads);
  for (const twin::SweepResult& result : results) EBB_RETURN_IF_ERROR(result.status);
  const double cpu_s = ProcessCpuSeconds() - cpu_begin;
  samples.Add("sweep.wall_s", NowSeconds() - begin);
  samples.Add("sweep.cpu_s", cpu_s);
  // What it takes on as many cores of its own: the machine may have other work.
  samples.Add("sweep.seconds", cpu_s / options.threads);
  samples.Add("sweep.cpu_ms_a_setting", cpu_s * 1e3 / static_cast<double>(count));
  // To steady state and no further.
  const double steady_begin = ProcessCpuSeconds();
  const std::vector<env::Setting> some(settings.begin(),
                                       settings.begin() + static_cast<ptrdiff_t>(count * 3 / 10));
  twin::RunSweep(config, some, sample, {.settle_seconds = 5, .measure_seconds = 1}, 1);
  samples.Add("sweep.steady_300_s", ProcessCpuSeconds() - steady_begin);
  return absl::OkStatus();
}

}  // namespace ebb::twin_bench
