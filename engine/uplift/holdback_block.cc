#include "engine/uplift/holdback_block.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace ebb::engine {
namespace {

constexpr size_t kWindowsMin = 4;
// A kind of requests counts when nearly every window has enough of them; windows without are left
// out then.
constexpr double kKindWindowsMin = 0.9;
// Loads that differ by more than this (in load_features.h's unit of "visibly") are not compared.
constexpr double kLoadGapMax = 1;

struct Side {
  std::array<double, kComponentCount> mean{};
  std::array<double, kLoadFeatureCount> load{};
  size_t windows = 0;
  size_t closed_loop = 0;
};

struct Kinds {
  bool read = false;
  bool write = false;
};

using Windows = std::vector<env::Observation>;

Kinds CountedKinds(std::initializer_list<const Windows*> sides) {
  size_t windows = 0;
  size_t reads = 0;
  size_t writes = 0;
  for (const Windows* side : sides) {
    for (const env::Observation& each : *side) {
      const ComponentLogs logs = MeasureComponents(each.metrics);
      ++windows;
      reads += logs.has_read ? 1 : 0;
      writes += logs.has_write ? 1 : 0;
    }
  }
  const auto enough = [&](size_t count) {
    return count > 0 &&
           static_cast<double>(count) >= kKindWindowsMin * static_cast<double>(windows);
  };
  return {enough(reads), enough(writes)};
}

Side MeanOf(const Windows& windows, const Kinds& kinds) {
  Side side;
  for (const env::Observation& each : windows) {
    const ComponentLogs logs = MeasureComponents(each.metrics);
    if ((kinds.read && !logs.has_read) || (kinds.write && !logs.has_write)) continue;
    ++side.windows;
    const LoadFeatures features = FeaturesOf(each.descriptor);
    side.closed_loop += features.closed_loop ? 1 : 0;
    for (size_t k = 0; k < kComponentCount; ++k) side.mean[k] += logs.value[k];
    for (size_t j = 0; j < kLoadFeatureCount; ++j) side.load[j] += features.value[j];
  }
  for (double& value : side.mean) value /= static_cast<double>(std::max<size_t>(1, side.windows));
  for (double& value : side.load) value /= static_cast<double>(std::max<size_t>(1, side.windows));
  return side;
}

bool MostlyClosed(const Side& side) { return 2 * side.closed_loop > side.windows; }

std::string LoadFault(const Side& before, const Side& with_default, const Side& after) {
  if (MostlyClosed(before) != MostlyClosed(with_default) ||
      MostlyClosed(after) != MostlyClosed(with_default)) {
    return "clients waited for their answers on one side only";
  }
  for (size_t j = 0; j < kLoadFeatureCount; ++j) {
    const double gap = 0.5 * (before.load[j] + after.load[j]) - with_default.load[j];
    if (std::abs(gap) > kLoadGapMax) {
      return fmt::format("the {} was another one beside the default's windows", LoadFeatureWord(j));
    }
  }
  return {};
}

}  // namespace

double UpliftBlock::LogUplift(const Goal& goal) const {
  // The mix of the whole block weighs every window alike: a mix that wanders from window to window
  // would put the level of a latency into the comparison.
  constexpr double kOps = 1e6;
  const auto traffic = [](bool any, double share) {
    env::OpWindow window;  // with a latency, because without one it would be none
    window.ops = any ? static_cast<uint64_t>(kOps * std::max(1e-3, share)) : 0;
    window.p50_ns = window.p99_ns = 1;
    return window;
  };
  env::WindowMetrics mix;
  mix.read = traffic(has_read, read_share);
  mix.write = traffic(has_write, 1 - read_share);
  const ComponentWeights weights = WeightsFor(goal, mix);
  double log_uplift = 0;
  for (size_t k = 0; k < kComponentCount; ++k) {
    log_uplift += ComponentSign(k) * weights[k] * log_ratio[k];
  }
  return log_uplift;
}

absl::StatusOr<UpliftBlock> MeasureBlock(const Windows& before, const Windows& with_default,
                                         const Windows& after) {
  const Kinds kinds = CountedKinds({&before, &with_default, &after});
  if (!kinds.read && !kinds.write) {
    return absl::FailedPreconditionError("too few requests in its windows");
  }
  const Side left = MeanOf(before, kinds);
  const Side middle = MeanOf(with_default, kinds);
  const Side right = MeanOf(after, kinds);
  if (std::min({left.windows, middle.windows, right.windows}) < kWindowsMin) {
    return absl::FailedPreconditionError(
        fmt::format("{} windows before it, {} of the default and {} after it are fit, {} of each "
                    "are needed",
                    left.windows, middle.windows, right.windows, kWindowsMin));
  }
  if (std::string fault = LoadFault(left, middle, right); !fault.empty()) {
    return absl::FailedPreconditionError(fault);
  }
  UpliftBlock block;
  block.from_ms = before.front().wall_ms;
  block.to_ms = after.back().wall_ms;
  block.default_windows = middle.windows;
  block.tuned_windows = left.windows + right.windows;
  block.has_read = kinds.read;
  block.has_write = kinds.write;
  for (size_t k = 0; k < kComponentCount; ++k) {
    const bool counts = k < kComponentsPerKind ? kinds.read : kinds.write;
    if (counts) block.log_ratio[k] = 0.5 * (left.mean[k] + right.mean[k]) - middle.mean[k];
  }
  double reads = 0;
  double operations = 0;
  for (const Windows* side : {&before, &with_default, &after}) {
    for (const env::Observation& each : *side) {
      reads += static_cast<double>(each.metrics.read.ops);
      operations += static_cast<double>(each.metrics.read.ops + each.metrics.write.ops);
    }
  }
  block.read_share = operations > 0 ? reads / operations : 0;
  return block;
}

HoldbackBlock::HoldbackBlock(const HoldbackPlan& plan, Windows before)
    : plan_(plan), before_(std::move(before)) {
  if (before_.size() > plan_.side_windows) {
    before_.erase(before_.begin(), before_.end() - static_cast<ptrdiff_t>(plan_.side_windows));
  }
}

env::Observation HoldbackBlock::Slim(env::Observation observation) {
  observation.metrics.read.latency = {};
  observation.metrics.write.latency = {};
  observation.metrics.flush.latency = {};
  return observation;
}

void HoldbackBlock::AddTuned(const env::Observation& observation) {
  if (waits_for_tuned()) after_.push_back(Slim(observation));
}

absl::StatusOr<UpliftBlock> HoldbackBlock::Measure() const {
  Windows after = after_;
  if (after.size() > plan_.side_windows) after.resize(plan_.side_windows);
  absl::StatusOr<UpliftBlock> block = MeasureBlock(before_, default_, after);
  if (block.ok() && plan_.slow) block->long_blocks = 1;
  return block;
}

}  // namespace ebb::engine
