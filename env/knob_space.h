// KnobSpace: what may be tuned on an environment, as data; Setting: a value for every knob of a
// space.
//
// Nothing here knows the store: a node describes its knobs over the control socket, the twin from
// its table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::env {

enum class KnobKind : uint8_t { kInteger, kBytes, kPercent, kMicroseconds, kChoice };

struct KnobSpec {
  std::string name;
  KnobKind kind = KnobKind::kInteger;
  int64_t min = 0;
  int64_t max = 0;
  int64_t default_value = 0;
  int64_t step = 1;                       // legal values are min + n * step
  bool log_scale = false;                 // search by factors
  std::vector<std::string> choices = {};  // of kChoice: value = position
  int settle_seconds = 0;
  bool agent_owned = true;  // false: only an operator may change it
  std::string coupled_with = {};
  std::string trades = {};
  bool operator==(const KnobSpec&) const = default;
};

// Values in the order of the space's knobs.
struct Setting {
  std::vector<int64_t> values;
  bool operator==(const Setting&) const = default;
};

class KnobSpace {
 public:
  KnobSpace() = default;
  explicit KnobSpace(std::vector<KnobSpec> knobs) : knobs_(std::move(knobs)) {}

  bool operator==(const KnobSpace&) const = default;
  const std::vector<KnobSpec>& knobs() const { return knobs_; }
  size_t size() const { return knobs_.size(); }
  const KnobSpec& operator[](size_t index) const { return knobs_[index]; }
  std::optional<size_t> Find(std::string_view name) const;

  Setting Default() const;
  // Every fault, one sentence each; empty when legal.
  std::vector<std::string> Faults(const Setting& setting) const;
  // The legal value of knob `index` nearest to `value`.
  int64_t Clamp(size_t index, double value) const;
  // Knob value <-> position in [0, 1] on its own scale (linear, logarithmic with 0 as its own
  // lowest point, choice).
  double ToUnit(size_t index, int64_t value) const;
  int64_t FromUnit(size_t index, double unit) const;
  // "64 MiB", "lz4", "70 %".
  std::string FormatValue(size_t index, int64_t value) const;

 private:
  std::vector<KnobSpec> knobs_;
};

// One knob's move.
struct KnobChange {
  std::string knob;
  int64_t from = 0;
  int64_t to = 0;
};
// What differs from `from` to `to`, in the space's order.
std::vector<KnobChange> Diff(const KnobSpace& space, const Setting& from, const Setting& to);
// Whether both change the same knobs, each to nearly the same place: within `unit_distance`. Where
// they start does not matter.
bool SameMove(const KnobSpace& space, const std::vector<KnobChange>& a,
              const std::vector<KnobChange>& b, double unit_distance);

}  // namespace ebb::env
