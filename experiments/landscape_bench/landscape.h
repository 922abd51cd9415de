// The landscape: what settings give on every family of loads and every class of devices.
//
//   calibrate   each cell's rate, from what the default setting sustains
//   sweep       every setting in every cell, on a sample of the load
//   select      the best of them again, unsampled, with other seeds; the best mean is the cell's
//               best, and over a class's families its static setting
//   report      those once more, with seeds that chose nothing: only these are figures
//
// A run that the guard would not let stand (trip conditions, or clients who keep their own pace
// fall behind) gains nothing, however fast it answers those whom it does answer.
//
// Same options, same numbers, however many threads.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "agents/agent.h"
#include "env/knob_space.h"
#include "experiments/landscape_bench/analysis.h"

namespace ebb::landscape_bench {

struct LandscapeOptions {
  size_t settings = 2'048;                // a power of two: Sobol points are most even then
  uint32_t divisor = 10;                  // of the sample that is swept
  uint64_t block_operations = 1'000'000;  // 4 KiB blocks that a cell's load touches
  size_t finalists = 5;                   // of the sweep, for each goal
  size_t everywhere = 2;                  // likewise, of a class's families and of all cells
  size_t select_seeds = 2;
  size_t report_seeds = 1;
  int threads = 2;
  uint64_t seed = 1;
  std::string only;  // families whose name holds this
};

struct Profile {
  std::string_view device_class;  // of the presets
  std::string_view model;         // service model of the capacity devices
};
std::span<const Profile> Profiles();

inline constexpr std::array kGoals = {agents::GoalKind::kRead, agents::GoalKind::kWrite,
                                      agents::GoalKind::kBalanced};
inline constexpr std::array<std::string_view, kGoals.size()> kGoalWords = {"read", "write",
                                                                           "balanced"};
inline constexpr size_t kBalanced = 2;

// What one run gave against the default's under the same load.
struct Gains {
  std::array<double, kGoals.size()> goals{};
  // Of the mean time that clients wait for reads and writes, socket and workers included.
  double client = kNone;
};

// A family on a class of devices.
struct Cell {
  size_t profile = 0;
  size_t family = 0;  // position in Landscape::families
  double ops_per_s = 0;
  double seconds = 0;
};

// What one goal has to gain in a cell; positions in Landscape::settings. kNone: no such requests.
struct GoalResult {
  size_t best = 0;
  double swept = kNone;  // the largest gain of the sweep: with the winner's curse
  double gain = kNone;   // of `best`, by the report's seeds, as all below
  double static_gain = kNone;
  double preset_gain = kNone;
  double client_gain = kNone;  // of `best`
  // By knob; zero where the settings hardly differ.
  std::vector<double> variance_shares;
  double swept_deviation = 0;  // of the sweep's gains
};

struct CellResult {
  Cell cell;
  std::array<GoalResult, kGoals.size()> goals;
};

// The setting that comes nearest to the best everywhere.
struct SingleSetting {
  size_t setting = 0;
  double worst_regret = kNone;
  size_t worst_cell = 0;
};

struct Landscape {
  env::KnobSpace space;
  // The default, each class's preset, then the Sobol settings.
  std::vector<env::Setting> settings;
  std::vector<std::string_view> families;
  std::vector<CellResult> cells;                           // profile by profile, family by family
  std::array<std::vector<size_t>, kGoals.size()> statics;  // by profile
  std::array<SingleSetting, kGoals.size()> single;
  // [goal][profile][from family][on family]: what one's best setting falls short of the other's.
  std::array<std::vector<GainTable>, kGoals.size()> regrets;
  size_t runs = 0;
  size_t refused_runs = 0;  // by the guard's conditions
  size_t failed_runs = 0;   // no node could run so
};

absl::StatusOr<Landscape> MeasureLandscape(const LandscapeOptions& options);

}  // namespace ebb::landscape_bench
