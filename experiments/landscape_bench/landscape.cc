#include "experiments/landscape_bench/landscape.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/status.h"
#include "base/units.h"
#include "engine/goal/goal.h"
#include "engine/guard/trip_wires.h"
#include "env/twin/sweep.h"
#include "env/twin/twin_environment.h"
#include "experiments/landscape_bench/families.h"
#include "experiments/support/bench_progress.h"
#include "fmt/format.h"
#include "storage-backend/knobs/presets.h"

namespace ebb::landscape_bench {
namespace {

using twin::RequestStream;

constexpr std::array kProfiles = {Profile{"disk", "disk-7200"}, Profile{"sata-ssd", "sata-ssd"},
                                  Profile{"nvme", "nvme"}};

// Seeds of loads and devices: calibration and sweep, choosing, figures.
constexpr uint64_t kSweepSeed = 1'000;
constexpr uint64_t kSelectSeed = 2'000;
constexpr uint64_t kReportSeed = 3'000;

constexpr int kClients = 16;
constexpr double kSecondsMin = 40;
constexpr double kOpsPerSecondMax = 12'000;
// Of a load: warmed up by, settled in, and the rest is measured. No block is measured because it
// was warmed up: a load that is passed again is learned by whatever remembers a whole pass.
constexpr double kWarmUpShare = 0.5;
constexpr double kSettleShare = 0.05;
// Classes of a knob's values: as many as leave a hundred settings to each. With fewer, Sobol points
// of two knobs go hand in hand, and one is given what is the other's.
constexpr size_t kBinsMin = 4;
constexpr size_t kBinsMax = 16;
constexpr size_t kSettingsPerBin = 100;
// Clients who keep their own pace wait without end where less of the load is served.
constexpr double kServedShareMin = 0.95;
// Where the sweep's gains spread less, shares of their variance are shares of noise.
constexpr double kDeviationMin = 0.005;

// Half a gibibyte of cache before two devices and a volume of 4 GiB; DRAM for reads up to an eighth
// of the cache, and a map of which a half fits memory, as they are on a node a thousand times the
// size.
twin::NodeModel MakeNode(const Profile& profile) {
  twin::NodeModel node;
  node.volume_bytes = 4 * kGiB;
  node.cache_bytes = 512 * kMiB;
  node.capacity_bytes = 3 * kGiB;
  node.capacity_device = profile.model;
  node.host_memory_bytes = 640 * kMiB;
  node.metadata.map_cache_bytes = 6 * kMiB;
  node.metadata.unit_cache_entries = 16'384;
  return node;
}

class Surveyor {
 public:
  explicit Surveyor(const LandscapeOptions& options)
      : options_(options), progress_("landscape", ExpectedWork(options)) {
    for (const Family& family : Families()) {
      if (family.name.find(options.only) == std::string_view::npos) continue;
      families_.push_back(&family);
      result_.families.push_back(family.name);
    }
    result_.space = twin::TwinKnobSpace(MakeNode(kProfiles[0]).host_memory_bytes);
    result_.settings.push_back(result_.space.Default());
    for (const Profile& profile : kProfiles) {
      result_.settings.push_back(twin::ToEnvSetting(storage::PresetSetting(profile.device_class)));
    }
    for (env::Setting& setting :
         twin::SpreadSettings(result_.space, result_.space.Default(), options.settings,
                              /*all_knobs=*/true, options.seed)) {
      result_.settings.push_back(std::move(setting));
    }
  }

  absl::StatusOr<Landscape> Run() {
    for (size_t profile = 0; profile < kProfiles.size(); ++profile) {
      for (size_t family = 0; family < families_.size(); ++family) {
        result_.cells.push_back({.cell = {.profile = profile, .family = family}, .goals = {}});
        CellResult& cell = result_.cells.back();
        EBB_RETURN_IF_ERROR(Calibrate(cell.cell));
        EBB_RETURN_IF_ERROR(Sweep(cell));
      }
    }
    EBB_RETURN_IF_ERROR(Select());
    EBB_RETURN_IF_ERROR(Report());
    progress_.End();
    return std::move(result_);
  }

 private:
  // In runs of a whole load, nearly: many finalists are the same.
  static double ExpectedWork(const LandscapeOptions& options) {
    const auto families = static_cast<double>(Families().size());
    const auto goals = static_cast<double>(kGoals.size());
    const auto everywhere = static_cast<double>(options.everywhere);
    const double swept = static_cast<double>(options.settings) / options.divisor;
    const double selected = goals * (static_cast<double>(options.finalists) + 2 * everywhere) + 2;
    const double reported = 2 * families + goals * everywhere + 4;
    return families * kProfiles.size() *
           (2 + swept + static_cast<double>(options.select_seeds) * selected +
            static_cast<double>(options.report_seeds) * reported);
  }

  twin::SimulatorConfig Config(const Cell& cell, uint64_t seed) const {
    return {.node = MakeNode(kProfiles[cell.profile]), .setting = {}, .seed = seed};
  }
  std::string Name(const Cell& cell) const {
    return fmt::format("{} on {}", families_[cell.family]->name,
                       kProfiles[cell.profile].device_class);
  }

  absl::StatusOr<RequestStream> MakeLoad(const Cell& cell, uint64_t seed) const {
    return MakeFamilyLoad(*families_[cell.family], cell.ops_per_s, cell.seconds,
                          MakeNode(kProfiles[cell.profile]).volume_bytes, options_.seed + seed);
  }

  // The rate: a share of what clients that wait get from the default setting, once its log is full.
  absl::Status Calibrate(Cell& cell) {
    progress_.Begin("the rate of " + Name(cell));
    cell.ops_per_s = 1'000;
    cell.seconds = 4;
    EBB_ASSIGN_OR_RETURN(const RequestStream probe, MakeLoad(cell, kSweepSeed));
    const double blocks_per_op =
        static_cast<double>(probe.block_operations()) / (cell.ops_per_s * cell.seconds);
    const auto block_operations = static_cast<double>(options_.block_operations);
    cell.seconds = block_operations / blocks_per_op / cell.ops_per_s;
    EBB_ASSIGN_OR_RETURN(const RequestStream load, MakeLoad(cell, kSweepSeed));
    twin::SimulatorConfig config = Config(cell, options_.seed + kSweepSeed);
    config.closed_loop_clients = kClients;
    EBB_ASSIGN_OR_RETURN(const auto simulator, twin::Simulator::Make(config, load));
    simulator->WarmUp(2, kWarmUpShare);
    double ops = 0;
    double seconds = 0;
    // What is left of the pass fills the log, the next one counts.
    while (2 * simulator->block_operations() < 3 * load.block_operations()) {
      const bool counts = 2 * simulator->block_operations() >= load.block_operations();
      const env::WindowMetrics seen = simulator->RunWindow(0.5).metrics;
      if (!counts) continue;
      ops += static_cast<double>(seen.read.ops + seen.write.ops);
      seconds += seen.seconds;
    }
    const double sustained = seconds > 0 ? ops / seconds : kOpsPerSecondMax;
    cell.ops_per_s = std::min({families_[cell.family]->utilisation * sustained, kOpsPerSecondMax,
                               block_operations / blocks_per_op / kSecondsMin});
    cell.seconds = block_operations / blocks_per_op / cell.ops_per_s;
    progress_.Advance(2);
    return absl::OkStatus();
  }

  // The gains of `which` settings; the default runs beside them.
  std::vector<Gains> Measure(const Cell& cell, const RequestStream& load,
                             std::span<const size_t> which, uint64_t seed) {
    std::vector<env::Setting> settings = {result_.settings[0]};
    for (const size_t i : which) settings.push_back(result_.settings[i]);
    const double work = 1.0 / load.time_divisor();
    const std::vector<twin::SweepResult> runs =
        twin::RunSweep(Config(cell, options_.seed + seed), settings, load,
                       {.warm_up_share = kWarmUpShare,
                        .settle_seconds = kSettleShare * cell.seconds,
                        .measure_seconds = (1 - kWarmUpShare - kSettleShare) * cell.seconds},
                       options_.threads, [&](size_t) {
                         progress_.Advance(work);
                         return true;
                       });
    std::vector<Gains> gains;
    for (size_t i = 1; i < runs.size(); ++i) gains.push_back(GainsOf(runs[i], runs[0]));
    return gains;
  }

  Gains GainsOf(const twin::SweepResult& run, const twin::SweepResult& base) {
    Gains gains;
    gains.goals.fill(kNone);
    ++result_.runs;
    if (!run.status.ok() || !base.status.ok()) {
      ++result_.failed_runs;
      return gains;
    }
    const env::WindowMetrics& seen = run.window.metrics;
    const env::WindowMetrics& before = base.window.metrics;
    const bool refused = IsRefused(seen, before);
    result_.refused_runs += refused ? 1 : 0;
    for (size_t goal = 0; goal < kGoals.size(); ++goal) {
      const uint64_t own = kGoals[goal] == agents::GoalKind::kRead    ? before.read.ops
                           : kGoals[goal] == agents::GoalKind::kWrite ? before.write.ops
                                                                      : engine::kOpsPerKindMin;
      if (own < engine::kOpsPerKindMin) continue;
      const double gain = engine::LogIndexAgainst(kGoals[goal], seen, before);
      gains.goals[goal] = refused ? std::min(gain, 0.0) : gain;
    }
    gains.client = std::log(base.window.client.MeanNs() / run.window.client.MeanNs());
    return gains;
  }

  static bool IsRefused(const env::WindowMetrics& seen, const env::WindowMetrics& before) {
    env::Observation incumbent;
    incumbent.metrics = before;
    const env::TripConditions trips = engine::TripsFor({incumbent}, {});
    const auto above = [](const env::OpWindow& op, const std::optional<double>& max_us) {
      return max_us && op.p99_ns > 1e3 * *max_us;
    };
    const auto ops = [](const env::WindowMetrics& m) {
      return static_cast<double>(m.read.ops + m.write.ops);
    };
    return seen.read.errors + seen.write.errors > *trips.errors_max ||
           above(seen.read, trips.read_p99_us_max) || above(seen.write, trips.write_p99_us_max) ||
           ops(seen) < kServedShareMin * ops(before);
  }

  absl::Status Sweep(CellResult& result) {
    progress_.Begin("sweeping " + Name(result.cell));
    EBB_ASSIGN_OR_RETURN(const RequestStream load, MakeLoad(result.cell, kSweepSeed));
    const RequestStream sample = load.Sample(options_.divisor, options_.seed);
    std::vector<size_t> all;
    for (size_t i = 0; i < result_.settings.size(); ++i) all.push_back(i);
    const std::vector<Gains> gains = Measure(result.cell, sample, all, kSweepSeed);
    const size_t first = 1 + kProfiles.size();  // of the Sobol settings
    for (size_t goal = 0; goal < kGoals.size(); ++goal) {
      std::vector<double> own;
      for (const Gains& one : gains) own.push_back(one.goals[goal]);
      GoalResult& seen = result.goals[goal];
      const std::span<const double> spread = std::span(own).subspan(first);
      const std::vector<size_t> best = Largest(own, 1);
      if (!best.empty()) seen.swept = own[best[0]];
      seen.swept_deviation = Deviation(spread);
      seen.variance_shares.assign(result_.space.size(), 0);
      if (seen.swept_deviation >= kDeviationMin) {
        seen.variance_shares =
            VarianceShares(result_.space, std::span(result_.settings).subspan(first), spread,
                           std::clamp(options_.settings / kSettingsPerBin, kBinsMin, kBinsMax));
      }
      swept_[goal].push_back(std::move(own));
    }
    return absl::OkStatus();
  }

  // The cells of one class of devices.
  GainTable OfClass(const GainTable& cells, size_t profile) const {
    GainTable of_class;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (result_.cells[i].cell.profile == profile) of_class.push_back(cells[i]);
    }
    return of_class;
  }

  // The settings worth another look in a cell: default, preset, the sweep's best for each goal, and
  // those that are good over all families of the class or over all cells.
  std::vector<std::vector<size_t>> ChooseFinalists() {
    std::vector<std::set<size_t>> finalists(result_.cells.size());
    for (size_t goal = 0; goal < kGoals.size(); ++goal) {
      std::vector<double> regrets = WorstRegrets(swept_[goal]);
      for (double& regret : regrets) regret = -regret;
      singles_tried_[goal] = Largest(regrets, options_.everywhere);
      statics_tried_[goal].resize(kProfiles.size());
      for (size_t profile = 0; profile < kProfiles.size(); ++profile) {
        statics_tried_[goal][profile] =
            Largest(MeanGains(OfClass(swept_[goal], profile)), options_.everywhere);
      }
      for (size_t i = 0; i < result_.cells.size(); ++i) {
        const size_t profile = result_.cells[i].cell.profile;
        const std::vector<size_t> best = Largest(swept_[goal][i], options_.finalists);
        for (const auto& more : {best, singles_tried_[goal], statics_tried_[goal][profile]}) {
          finalists[i].insert(more.begin(), more.end());
        }
        finalists[i].insert({0, 1 + profile});
      }
    }
    std::vector<std::vector<size_t>> lists;
    for (const std::set<size_t>& one : finalists) lists.emplace_back(one.begin(), one.end());
    return lists;
  }

  // Mean gains of `which` over fresh seeds, by setting; kNone elsewhere.
  struct Means {
    std::array<std::vector<double>, kGoals.size()> goals;
    std::vector<double> client;
  };
  absl::StatusOr<Means> Remeasure(const Cell& cell, std::span<const size_t> which,
                                  uint64_t first_seed, size_t seeds) {
    Means means;
    for (std::vector<double>& mean : means.goals) mean.assign(result_.settings.size(), kNone);
    means.client.assign(result_.settings.size(), kNone);
    for (size_t n = 0; n < seeds; ++n) {
      EBB_ASSIGN_OR_RETURN(const RequestStream load, MakeLoad(cell, first_seed + n));
      const std::vector<Gains> gains = Measure(cell, load, which, first_seed + n);
      const auto add = [&](std::vector<double>& mean, size_t setting, double gain) {
        mean[setting] = (n == 0 ? 0 : mean[setting]) + gain / static_cast<double>(seeds);
      };
      for (size_t i = 0; i < which.size(); ++i) {
        for (size_t goal = 0; goal < kGoals.size(); ++goal) {
          add(means.goals[goal], which[i], gains[i].goals[goal]);
        }
        add(means.client, which[i], gains[i].client);
      }
    }
    return means;
  }

  absl::Status Select() {
    const std::vector<std::vector<size_t>> finalists = ChooseFinalists();
    std::array<GainTable, kGoals.size()> selected;
    for (size_t i = 0; i < result_.cells.size(); ++i) {
      CellResult& cell = result_.cells[i];
      progress_.Begin("the best again: " + Name(cell.cell));
      EBB_ASSIGN_OR_RETURN(auto means,
                           Remeasure(cell.cell, finalists[i], kSelectSeed, options_.select_seeds));
      for (size_t goal = 0; goal < kGoals.size(); ++goal) {
        const std::vector<size_t> best = Largest(means.goals[goal], 1);
        if (!best.empty()) cell.goals[goal].best = best[0];
        selected[goal].push_back(std::move(means.goals[goal]));
      }
    }
    for (size_t goal = 0; goal < kGoals.size(); ++goal) {
      for (size_t profile = 0; profile < kProfiles.size(); ++profile) {
        const std::vector<size_t> best = Largest(MeanGains(OfClass(selected[goal], profile)), 1);
        result_.statics[goal].push_back(best.empty() ? 0 : best[0]);
      }
    }
    return absl::OkStatus();
  }

  // Whatever is compared in a cell of this class: the bests of all its families, presets, statics.
  std::vector<size_t> Compared(size_t profile) const {
    std::set<size_t> which = {0, 1 + profile};
    for (size_t goal = 0; goal < kGoals.size(); ++goal) {
      which.insert(result_.statics[goal][profile]);
      which.insert(singles_tried_[goal].begin(), singles_tried_[goal].end());
      for (const CellResult& cell : result_.cells) {
        if (cell.cell.profile == profile) which.insert(cell.goals[goal].best);
      }
    }
    return {which.begin(), which.end()};
  }

  absl::Status Report() {
    std::array<GainTable, kGoals.size()> reported;
    for (size_t i = 0; i < result_.cells.size(); ++i) {
      CellResult& cell = result_.cells[i];
      progress_.Begin("figures: " + Name(cell.cell));
      EBB_ASSIGN_OR_RETURN(const auto means, Remeasure(cell.cell, Compared(cell.cell.profile),
                                                       kReportSeed, options_.report_seeds));
      for (size_t goal = 0; goal < kGoals.size(); ++goal) {
        GoalResult& seen = cell.goals[goal];
        seen.gain = means.goals[goal][seen.best];
        seen.static_gain = means.goals[goal][result_.statics[goal][cell.cell.profile]];
        seen.preset_gain = means.goals[goal][1 + cell.cell.profile];
        seen.client_gain = means.client[seen.best];
        reported[goal].push_back(means.goals[goal]);
      }
    }
    for (size_t goal = 0; goal < kGoals.size(); ++goal) {
      FillRegrets(goal, reported[goal]);
      FillSingle(goal, reported[goal]);
    }
    return absl::OkStatus();
  }

  void FillRegrets(size_t goal, const GainTable& reported) {
    const size_t count = families_.size();
    for (size_t profile = 0; profile < kProfiles.size(); ++profile) {
      GainTable table(count, std::vector<double>(count, kNone));
      for (size_t from = 0; from < count; ++from) {
        const GoalResult& best = result_.cells[profile * count + from].goals[goal];
        for (size_t on = 0; on < count; ++on) {
          const size_t cell = profile * count + on;
          table[from][on] = std::isnan(best.gain)
                                ? kNone
                                : result_.cells[cell].goals[goal].gain - reported[cell][best.best];
        }
      }
      result_.regrets[goal].push_back(std::move(table));
    }
  }

  void FillSingle(size_t goal, const GainTable& reported) {
    SingleSetting& single = result_.single[goal];
    for (const size_t setting : singles_tried_[goal]) {
      double worst = -1;
      size_t where = 0;
      for (size_t i = 0; i < reported.size(); ++i) {
        const double regret = result_.cells[i].goals[goal].gain - reported[i][setting];
        if (std::isnan(regret) || regret <= worst) continue;
        worst = regret;
        where = i;
      }
      if (worst < 0 || worst >= single.worst_regret) continue;
      single = {.setting = setting, .worst_regret = worst, .worst_cell = where};
    }
  }

  static double Deviation(std::span<const double> gains) {
    double count = 0;
    double sum = 0;
    double squares = 0;
    for (const double gain : gains) {
      if (std::isnan(gain)) continue;
      ++count;
      sum += gain;
      squares += gain * gain;
    }
    return count < 2 ? 0 : std::sqrt(std::max(0.0, squares / count - sum / count * sum / count));
  }

  const LandscapeOptions options_;
  experiments::BenchProgress progress_;
  std::vector<const Family*> families_;
  Landscape result_;
  std::array<GainTable, kGoals.size()> swept_;  // [goal][cell][setting]
  std::array<std::vector<size_t>, kGoals.size()> singles_tried_;
  std::array<std::vector<std::vector<size_t>>, kGoals.size()> statics_tried_;  // [goal][profile]
};

}  // namespace

std::span<const Profile> Profiles() { return kProfiles; }

absl::StatusOr<Landscape> MeasureLandscape(const LandscapeOptions& options) {
  if (options.settings == 0) return absl::InvalidArgumentError("no settings");
  Surveyor surveyor(options);
  return surveyor.Run();
}

}  // namespace ebb::landscape_bench
