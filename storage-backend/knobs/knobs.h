// The knobs of a node: one table as data, and Setting, a value for every knob.
//
// The store reads its Setting by KnobId; the control endpoint, the documentation and (through it)
// the tuner read the table. Every knob changes at run time and none can touch durability: no knob
// decides what a completed flush means.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::storage {

enum class KnobId : uint8_t {
  kNvmeReadShare,
  kReadCacheBytes,
  kReadaheadBlocks,
  kSequentialBypassBytes,
  kDestageWatermark,
  kDestagePoliteness,
  kDestageBatchBytes,
  kDestageParallelism,
  kThrottleSoftness,
  kFlushGroupUs,
  kCompression,
  kCompressionUnitBytes,
  kDedup,
  kReadPolicy,
  kReadAdmission,
  kCompactionPoliteness,
  kScrubMibps,
};
inline constexpr size_t kKnobCount = 17;

enum class KnobKind : uint8_t { kInteger, kBytes, kPercent, kMicroseconds, kChoice };
enum class KnobOwner : uint8_t { kAgent, kOperator };

// Values of the choice knobs: positions in KnobSpec::choices.
enum class Compression : uint8_t { kOff, kLz4, kZstd1, kZstd3 };
enum class Dedup : uint8_t { kOff, kOn, kSampled };
enum class ReadPolicy : uint8_t { kLru, kS3Fifo };
enum class ReadAdmission : uint8_t { kAlways, kSecondHit, kFrequency };

struct KnobSpec {
  KnobId id;
  std::string_view name;  // snake_case, unit last
  KnobKind kind;
  int64_t min;
  int64_t max;
  int64_t default_value;
  int64_t step;                               // legal values are min + n * step
  bool log_scale;                             // a step of search is a factor, not a difference
  std::span<const std::string_view> choices;  // of kChoice; empty otherwise
  int settle_seconds;                         // how long until its effect is in the metrics
  KnobOwner owner;
  std::string_view coupled_with;  // name of the knob that limits it, or empty
  std::string_view trades;        // what it trades against what, one sentence
};

// In KnobId order.
std::span<const KnobSpec> KnobTable();
const KnobSpec& Spec(KnobId id);
const KnobSpec* FindKnob(std::string_view name);  // nullptr when there is none
// The knob name nearest to a mistyped one, for "did you mean"; empty when nothing is near.
std::string_view NearestKnobName(std::string_view name);

// A value for every knob. A plain value type; a default-constructed one is the vendor's default.
class Setting {
 public:
  Setting();
  int64_t operator[](KnobId id) const { return values_[static_cast<size_t>(id)]; }
  void Set(KnobId id, int64_t value) { values_[static_cast<size_t>(id)] = value; }
  template <typename Enum>
  Enum As(KnobId id) const {
    return static_cast<Enum>((*this)[id]);
  }
  bool operator==(const Setting&) const = default;

 private:
  std::array<int64_t, kKnobCount> values_;
};

// What the host and the devices allow, on top of the table's ranges.
struct KnobLimits {
  uint64_t host_memory_bytes =
      0;  // read_cache_bytes is at most 10 % of it; 0 = unknown, table only
};

// The largest legal value of a knob under `limits`.
int64_t KnobMax(const KnobSpec& spec, const KnobLimits& limits);

// Every fault of `setting`, one sentence each naming the knob; empty when it is legal.
std::vector<std::string> SettingFaults(const Setting& setting, const KnobLimits& limits);

// "lz4", "64 MiB", "70 %": for messages. The wire form is the integer, or the choice's word.
std::string FormatKnobValue(const KnobSpec& spec, int64_t value);
// The position of a choice's word in spec.choices.
std::optional<int64_t> ParseChoice(const KnobSpec& spec, std::string_view word);

}  // namespace ebb::storage
