// Is the uplift that people are shown true? Model nodes with a known effect, several hundred of
// each kind: the 95 % interval must cover the truth in 92 to 98 % of them.
#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/guard/shift_detector.h"
#include "engine/uplift/uplift_ledger.h"
#include "env/testing/simple_model_environment.h"

namespace ebb::engine {
namespace {

constexpr int kRuns = 300;
constexpr uint64_t kWindows = 600;
constexpr agents::GoalKind kGoal = agents::GoalKind::kBalanced;
// More often than in a product, so that a run is short.
constexpr double kShare = 0.25;
// Of each figure; the index, which weighs them, then has 5 %.
constexpr double kNoiseCv = 0.09;

enum class Trouble { kNone, kShifts, kAging };

struct Case {
  double effect;  // of the tuned setting, relative
  Trouble trouble;
};

// One knob at 0; at 10 the store is better by `effect` in everything.
env::SimpleModelConfig ModelWithEffect(double effect) {
  env::SimpleModelConfig model;
  model.knobs = {{.name = "dial", .max = 10, .default_value = 0}};
  const double log_effect = std::log1p(effect);
  env::KnobResponse response{.best_unit = log_effect > 0 ? 1.0 : 0.0};
  response.read_depth = response.write_depth = std::abs(log_effect);
  model.responses = {response};
  model.noise_cv = kNoiseCv;
  return model;
}

// The clients come and go all the time; now and then the load becomes another one altogether.
void VaryLoad(Rng& rng, bool shifts, env::SimpleModelConfig& model) {
  double size = 0;
  double level = 0;
  double read_share = 0.5;
  for (uint64_t window = 0; window < kWindows; ++window) {
    size = 0.9 * size + 0.1 * std::sqrt(1 - 0.9 * 0.9) * rng.Normal();
    if (shifts && rng.Below(150) == 0) {
      level = level == 0 ? std::log(4) : 0;
      read_share = read_share < 0.4 ? 0.7 : 0.3;
    }
    model.steps.push_back(
        {window, std::exp(level + size), read_share + 0.02 * rng.Uniform(), 4096});
  }
}

// What the loop does, without its trials: the default's turns by schedule, blocks dropped when the
// load shifts.
class HeldBackNode {
 public:
  HeldBackNode(const Case& wanted, uint64_t seed) : schedule_(kShare, seed) {
    Rng rng(seed);
    env::SimpleModelConfig model = ModelWithEffect(wanted.effect);
    model.seed = rng.Next();
    VaryLoad(rng, wanted.trouble == Trouble::kShifts, model);
    if (wanted.trouble == Trouble::kAging) {
      model.drift_per_window = std::log1p(-0.002);
      model.drift_from_window = kWindows / 4;
      model.drift_to_window = 3 * kWindows / 4;
    }
    node_ = std::make_unique<env::SimpleModelEnvironment>(model, clock_);
    Run(true);
  }

  void RunAll() {
    for (uint64_t i = 0; i < kWindows; ++i) RunWindow(static_cast<int64_t>(i));
  }
  UpliftSpan Uplift() { return ledger_.Report(kGoal, clock_.WallMs(), 24).since_attach; }
  uint64_t dropped() const { return ledger_.dropped(); }

 private:
  void Run(bool tuned) {
    ASSERT_TRUE(node_->SetIncumbent({{tuned ? 10 : 0}}, "test", "").ok());
    tuned_ = tuned;
    settle_left_ = plan_.settle_windows;
  }
  void RunWindow(int64_t window) {
    absl::StatusOr<env::Observation> seen = node_->Observe();
    ASSERT_TRUE(seen.ok());
    seen->metrics.read.latency = seen->metrics.write.latency = {};
    if (shift_.Next(FeaturesOf(seen->descriptor))) {
      if (block_) ledger_.NoteDropped("the load shifted");
      block_.reset();
      recent_.clear();
      if (!tuned_) EndTurn(window);
      return;
    }
    if (settle_left_ > 0) {
      --settle_left_;
      return;
    }
    if (!tuned_) {
      block_->AddDefault(*seen);
      if (--default_left_ == 0) EndTurn(window);
      return;
    }
    recent_.push_back(*seen);
    if (block_) {
      block_->AddTuned(*seen);
      if (!block_->complete()) return;
      const absl::StatusOr<UpliftBlock> measured = block_->Measure();
      if (measured.ok()) {
        ledger_.Add(*measured);
      } else {
        ledger_.NoteDropped(std::string(measured.status().message()));
      }
      block_.reset();
    }
    if (schedule_.Due(window, plan_) && recent_.size() >= plan_.side_windows) {
      block_.emplace(plan_, recent_);
      recent_.clear();
      default_left_ = plan_.default_windows;
      Run(false);
    }
  }
  void EndTurn(int64_t window) {
    if (block_) block_->EndDefault();
    schedule_.NoteEnd(window, plan_);
    Run(true);
  }

  const HoldbackPlan plan_ = PlanHoldback(10, 1);
  ManualClock clock_;
  std::unique_ptr<env::SimpleModelEnvironment> node_;
  HoldbackSchedule schedule_;
  ShiftDetector shift_{ShiftConfig{}};
  UpliftLedger ledger_;
  std::optional<HoldbackBlock> block_;
  std::vector<env::Observation> recent_;  // of the tuned setting, since the last turn
  bool tuned_ = true;
  uint32_t settle_left_ = 0;
  uint32_t default_left_ = 0;
};

class UpliftHonesty : public testing::TestWithParam<Case> {};

TEST_P(UpliftHonesty, TheIntervalCoversTheTruthAsOftenAsItSays) {
  int with_interval = 0;
  int covered = 0;
  double mean = 0;
  double half_width = 0;
  uint64_t dropped = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto kind = static_cast<uint64_t>(GetParam().trouble) * 1000 +
                      static_cast<uint64_t>(std::lround(100 * (1 + GetParam().effect)));
    HeldBackNode node(GetParam(), kind * 10'000 + static_cast<uint64_t>(run));
    node.RunAll();
    const UpliftSpan span = node.Uplift();
    dropped += node.dropped();
    if (!span.effect) continue;
    ++with_interval;
    covered += span.effect->low <= GetParam().effect && GetParam().effect <= span.effect->high;
    mean += span.effect->mean;
    half_width += (span.effect->high - span.effect->low) / 2;
  }
  const double runs = with_interval;
  RecordProperty("coverage", std::to_string(covered / runs));
  std::printf(
      "effect %+.2f: coverage %.3f, mean %+.4f, half width %.4f, %d of %d runs, %.1f dropped\n",
      GetParam().effect, covered / runs, mean / runs, half_width / runs, with_interval, kRuns,
      static_cast<double>(dropped) / kRuns);

  EXPECT_GE(with_interval, kRuns * 9 / 10);
  EXPECT_GE(covered / runs, 0.92);
  EXPECT_LE(covered / runs, 0.98);
  EXPECT_NEAR(mean / runs, GetParam().effect, 0.004);
  // To be right by being vague is easy.
  EXPECT_LT(half_width / runs, 0.05 * (1 + GetParam().effect));
  if (GetParam().trouble == Trouble::kShifts) {
    EXPECT_GE(dropped, static_cast<uint64_t>(kRuns));
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Trouble trouble : {Trouble::kNone, Trouble::kShifts, Trouble::kAging}) {
    for (const double effect : {-0.05, 0.0, 0.10, 0.30}) cases.push_back({effect, trouble});
  }
  return cases;
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  constexpr const char* kNames[] = {"Steady", "Shifts", "Aging"};
  const auto percent = std::lround(100 * info.param.effect);
  return std::string(kNames[static_cast<int>(info.param.trouble)]) +
         (percent < 0 ? "Minus" : "Plus") + std::to_string(std::abs(percent));
}

INSTANTIATE_TEST_SUITE_P(KnownEffects, UpliftHonesty, testing::ValuesIn(Cases()), CaseName);

}  // namespace
}  // namespace ebb::engine
