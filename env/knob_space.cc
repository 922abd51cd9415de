#include "env/knob_space.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::env {
namespace {

// The last legal value: `max` itself need not be one (the host's limits may have narrowed it).
int64_t LastLegal(const KnobSpec& spec) {
  return spec.min + (spec.max - spec.min) / spec.step * spec.step;
}

// Where a logarithmic scale begins: a knob that may be 0 has 0 as its own point below this value.
int64_t LogFloor(const KnobSpec& spec) { return spec.min > 0 ? spec.min : spec.min + spec.step; }

// The unit position of LogFloor: 0 when the range does not include 0, else as far from 0 as one
// octave.
double LogFloorUnit(const KnobSpec& spec) {
  if (spec.min > 0) return 0;
  const double octaves =
      std::log2(static_cast<double>(LastLegal(spec)) / static_cast<double>(LogFloor(spec)));
  return 1.0 / (1.0 + std::max(0.0, octaves));
}

bool IsLogarithmic(const KnobSpec& spec) {
  return spec.log_scale && spec.min >= 0 && LastLegal(spec) > LogFloor(spec);
}

}  // namespace

std::optional<size_t> KnobSpace::Find(std::string_view name) const {
  for (size_t i = 0; i < knobs_.size(); ++i) {
    if (knobs_[i].name == name) return i;
  }
  return std::nullopt;
}

Setting KnobSpace::Default() const {
  Setting setting;
  setting.values.reserve(knobs_.size());
  for (size_t i = 0; i < knobs_.size(); ++i) {
    // A default above what this host allows is the nearest value that it does allow.
    setting.values.push_back(Clamp(i, static_cast<double>(knobs_[i].default_value)));
  }
  return setting;
}

std::vector<std::string> KnobSpace::Faults(const Setting& setting) const {
  std::vector<std::string> faults;
  if (setting.values.size() != knobs_.size()) {
    faults.push_back(fmt::format("a setting of this environment has {} values, not {}",
                                 knobs_.size(), setting.values.size()));
    return faults;
  }
  for (size_t i = 0; i < knobs_.size(); ++i) {
    const KnobSpec& spec = knobs_[i];
    const int64_t value = setting.values[i];
    if (value < spec.min || value > spec.max) {
      faults.push_back(fmt::format("{} must be between {} and {}, not {}", spec.name,
                                   FormatValue(i, spec.min), FormatValue(i, spec.max),
                                   FormatValue(i, value)));
    } else if ((value - spec.min) % spec.step != 0) {
      faults.push_back(fmt::format("{} must be {} plus a multiple of {}, not {}", spec.name,
                                   spec.min, spec.step, value));
    }
  }
  return faults;
}

int64_t KnobSpace::Clamp(size_t index, double value) const {
  EBB_CHECK(index < knobs_.size());
  const KnobSpec& spec = knobs_[index];
  EBB_CHECK(spec.step > 0 && spec.min <= spec.max);
  const int64_t last = LastLegal(spec);
  // A comparison with NaN is false, so that it ends at the minimum as well.
  if (!(value > static_cast<double>(spec.min))) return spec.min;
  if (value >= static_cast<double>(last)) return last;
  const double steps =
      std::round((value - static_cast<double>(spec.min)) / static_cast<double>(spec.step));
  return std::min(last, spec.min + static_cast<int64_t>(steps) * spec.step);
}

double KnobSpace::ToUnit(size_t index, int64_t value) const {
  EBB_CHECK(index < knobs_.size());
  const KnobSpec& spec = knobs_[index];
  const int64_t last = LastLegal(spec);
  if (last == spec.min) return 0;
  const int64_t inside = std::clamp(value, spec.min, last);
  if (!IsLogarithmic(spec)) {
    return static_cast<double>(inside - spec.min) / static_cast<double>(last - spec.min);
  }
  const int64_t floor = LogFloor(spec);
  if (inside < floor) return 0;
  const double floor_unit = LogFloorUnit(spec);
  const double above = std::log(static_cast<double>(inside) / static_cast<double>(floor)) /
                       std::log(static_cast<double>(last) / static_cast<double>(floor));
  return std::min(1.0, floor_unit + (1 - floor_unit) * above);
}

int64_t KnobSpace::FromUnit(size_t index, double unit) const {
  EBB_CHECK(index < knobs_.size());
  const KnobSpec& spec = knobs_[index];
  const int64_t last = LastLegal(spec);
  const double inside = std::isnan(unit) ? 0.0 : std::clamp(unit, 0.0, 1.0);
  if (!IsLogarithmic(spec)) {
    return Clamp(index,
                 static_cast<double>(spec.min) + inside * static_cast<double>(last - spec.min));
  }
  const double floor_unit = LogFloorUnit(spec);
  if (inside < floor_unit / 2) return spec.min;
  const auto floor = static_cast<double>(LogFloor(spec));
  const double above = std::max(0.0, (inside - floor_unit) / (1 - floor_unit));
  return Clamp(index, floor * std::pow(static_cast<double>(last) / floor, above));
}

std::string KnobSpace::FormatValue(size_t index, int64_t value) const {
  EBB_CHECK(index < knobs_.size());
  const KnobSpec& spec = knobs_[index];
  switch (spec.kind) {
    case KnobKind::kBytes:
      return value < 0 ? fmt::format("{} B", value) : FormatBytes(static_cast<uint64_t>(value));
    case KnobKind::kPercent:
      return fmt::format("{} %", value);
    case KnobKind::kMicroseconds:
      return fmt::format("{} us", value);
    case KnobKind::kChoice:
      if (value >= 0 && static_cast<size_t>(value) < spec.choices.size()) {
        return spec.choices[static_cast<size_t>(value)];
      }
      return fmt::format("choice {}", value);
    case KnobKind::kInteger:
      break;
  }
  return fmt::format("{}", value);
}

std::vector<KnobChange> Diff(const KnobSpace& space, const Setting& from, const Setting& to) {
  EBB_CHECK(from.values.size() == space.size() && to.values.size() == space.size());
  std::vector<KnobChange> changes;
  for (size_t i = 0; i < space.size(); ++i) {
    if (from.values[i] != to.values[i]) {
      changes.push_back({space[i].name, from.values[i], to.values[i]});
    }
  }
  return changes;
}

bool SameMove(const KnobSpace& space, const std::vector<KnobChange>& a,
              const std::vector<KnobChange>& b, double unit_distance) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.begin(), a.end(), [&](const KnobChange& change) {
    const auto same = std::find_if(
        b.begin(), b.end(), [&](const KnobChange& other) { return other.knob == change.knob; });
    const std::optional<size_t> index = space.Find(change.knob);
    if (same == b.end() || !index) return false;
    return std::abs(space.ToUnit(*index, same->to) - space.ToUnit(*index, change.to)) <=
           unit_distance;
  });
}

}  // namespace ebb::env
