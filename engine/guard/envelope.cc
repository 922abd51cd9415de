#include "engine/guard/envelope.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/nearest.h"
#include "base/units.h"

namespace ebb::engine {
namespace {

// The knob that takes memory of the host.
constexpr std::string_view kMemoryKnob = "read_cache_bytes";

}  // namespace

bool Envelope::NeverTouches(std::string_view knob) const {
  return std::find(config_.never_touch.begin(), config_.never_touch.end(), knob) !=
         config_.never_touch.end();
}

std::string Envelope::ConfigFault(const env::KnobSpace& space) const {
  std::vector<std::string_view> known;
  for (const env::KnobSpec& knob : space.knobs()) known.push_back(knob.name);
  std::vector<std::string> unknown;
  for (const std::string& name : config_.never_touch) {
    if (space.Find(name)) continue;
    const std::string_view near = NearestWord(name, known);
    unknown.push_back(near.empty() ? fmt::format("'{}'", name)
                                   : fmt::format("'{}' (did you mean '{}'?)", name, near));
  }
  if (unknown.empty()) return {};
  return fmt::format("never_touch in the configuration names what is no knob of this node: {}",
                     fmt::join(unknown, ", "));
}

std::string Envelope::TroubleFault(const Situation& situation) const {
  if (situation.draining_by_operator) return "an operator is draining the cache";
  if (situation.dirty_share > config_.dirty_share_max) {
    return fmt::format("the cache is nearly full of data not yet destaged ({:.0f} %)",
                       100 * situation.dirty_share);
  }
  return {};
}

std::string Envelope::SituationFault(const Situation& situation) const {
  if (std::string trouble = TroubleFault(situation); !trouble.empty()) return trouble;
  if (situation.usable_windows_in_row < config_.usable_windows_min) {
    return situation.unusable_reason.empty()
               ? "too few usable windows in a row"
               : "the latest windows cannot be used: " + situation.unusable_reason;
  }
  if (situation.window < cool_until_window_) {
    return fmt::format("cooling down after a revert, {} more windows",
                       cool_until_window_ - situation.window);
  }
  const auto hour_windows = static_cast<int64_t>(3600 / window_seconds_);
  const auto now = static_cast<int64_t>(situation.window);
  const auto in_hour = std::count_if(trial_windows_.begin(), trial_windows_.end(),
                                     [&](int64_t w) { return w + hour_windows > now; });
  if (in_hour >= static_cast<int64_t>(config_.trials_per_hour_max)) {
    return fmt::format("the budget of {} trials an hour is used up", config_.trials_per_hour_max);
  }
  return {};
}

std::string Envelope::CandidateFault(const env::KnobSpace& space, const env::Setting& incumbent,
                                     const env::Setting& candidate, const std::vector<bool>& frozen,
                                     bool predicted, uint64_t window) const {
  if (candidate.values.size() != space.size()) return "the proposal has the wrong number of knobs";
  if (const auto faults = space.Faults(candidate); !faults.empty()) return faults.front();
  uint32_t changed = 0;
  for (size_t i = 0; i < space.size(); ++i) {
    if (candidate.values[i] == incumbent.values[i]) continue;
    ++changed;
    if (!space[i].agent_owned) {
      return fmt::format("{} belongs to the operator", space[i].name);
    }
    if (NeverTouches(space[i].name)) {
      return fmt::format("{} is on the never-touch list of the configuration", space[i].name);
    }
    if (i < frozen.size() && frozen[i]) return fmt::format("{} is pinned", space[i].name);
    if (std::string fault = MemoryFault(space, i, candidate.values[i]); !fault.empty()) {
      return fault;
    }
    const double step =
        std::abs(space.ToUnit(i, candidate.values[i]) - space.ToUnit(i, incumbent.values[i]));
    if (step > config_.step_unit_max + 1e-9) {
      return fmt::format("{} would move by {:.0f} % of its range, {:.0f} % is the limit",
                         space[i].name, 100 * step, 100 * config_.step_unit_max);
    }
  }
  if (changed == 0 && !config_.allow_identical) return "the proposal changes nothing";
  const uint32_t limit =
      predicted ? config_.knobs_per_predicted_trial_max : config_.knobs_per_trial_max;
  if (changed > limit) {
    return fmt::format("{} knobs at once, {} is the limit {} a predicted effect", changed, limit,
                       predicted ? "with" : "without");
  }
  const std::vector<env::KnobChange> move = env::Diff(space, incumbent, candidate);
  for (const Tabu& tabu : tabu_) {
    if (tabu.context == context_ && window < tabu.until_window &&
        env::SameMove(space, move, env::Diff(space, tabu.from, tabu.to),
                      config_.tabu_unit_distance)) {
      return fmt::format("this move was reverted not long ago and is refused for {} more windows",
                         tabu.until_window - window);
    }
  }
  return {};
}

void Envelope::SetContext(const std::string& id) {
  if (id == context_) return;
  context_ = id;
  std::erase_if(tabu_, [](const Tabu& tabu) { return tabu.context.empty(); });
}

double Envelope::MemoryMax() const {
  return config_.memory_share_max * static_cast<double>(config_.host_memory_bytes);
}

// The node narrows the range by its own memory; this holds for stores that do not, too.
std::string Envelope::MemoryFault(const env::KnobSpace& space, size_t knob, int64_t value) const {
  if (config_.host_memory_bytes == 0 || space[knob].name != kMemoryKnob) return {};
  if (static_cast<double>(value) <= MemoryMax()) return {};
  return fmt::format("{} would be {}, more than {:.0f} % of the host's {} of memory", kMemoryKnob,
                     space.FormatValue(knob, value), 100 * config_.memory_share_max,
                     FormatBytes(config_.host_memory_bytes));
}

std::pair<int64_t, int64_t> Envelope::Bounds(const env::KnobSpace& space, size_t knob,
                                             int64_t value) const {
  const double here = space.ToUnit(knob, value);
  const int64_t low = space.FromUnit(knob, here - config_.step_unit_max);
  int64_t high = space.FromUnit(knob, here + config_.step_unit_max);
  if (!MemoryFault(space, knob, high).empty()) {
    const int64_t step = space[knob].step;
    const auto most = static_cast<int64_t>(MemoryMax());
    high = std::max(low, space[knob].min + (most - space[knob].min) / step * step);
  }
  return {low, high};
}

void Envelope::NotePastTrial(double seconds_ago) {
  if (trial_windows_.size() >= config_.trials_per_hour_max) return;
  trial_windows_.push_front(-static_cast<int64_t>(seconds_ago / window_seconds_));
}

void Envelope::NoteTrialStarted(uint64_t window) {
  trial_windows_.push_back(static_cast<int64_t>(window));
  while (trial_windows_.size() > config_.trials_per_hour_max) trial_windows_.pop_front();
}

void Envelope::NoteReverted(const env::Setting& incumbent, const env::Setting& candidate,
                            uint64_t window) {
  cool_until_window_ = window + config_.cool_down_windows;
  std::erase_if(tabu_, [&](const Tabu& tabu) { return tabu.until_window <= window; });
  if (config_.tabu_windows > 0)
    tabu_.push_back({context_, incumbent, candidate, window + config_.tabu_windows});
}

}  // namespace ebb::engine
