#include "storage-backend/knobs/knobs.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

constexpr std::array<std::string_view, 4> kCompressionWords = {"off", "lz4", "zstd1", "zstd3"};
constexpr std::array<std::string_view, 3> kDedupWords = {"off", "on", "sampled"};
constexpr std::array<std::string_view, 2> kReadPolicyWords = {"lru", "s3fifo"};
constexpr std::array<std::string_view, 3> kReadAdmissionWords = {"always", "second_hit",
                                                                 "frequency"};

constexpr auto kKiBi = static_cast<int64_t>(kKiB);
constexpr auto kMiBi = static_cast<int64_t>(kMiB);
constexpr auto kGiBi = static_cast<int64_t>(kGiB);
constexpr auto kMaxInt64 = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

constexpr std::array<KnobSpec, kKnobCount> kTable = {{
    {KnobId::kNvmeReadShare,
     "nvme_read_share",
     KnobKind::kPercent,
     0,
     90,
     30,
     5,
     false,
     {},
     20,
     KnobOwner::kAgent,
     "",
     "Share of the cache device that keeps clean copies for reads, against burst room for writes."},
    {KnobId::kReadCacheBytes,
     "read_cache_bytes",
     KnobKind::kBytes,
     0,
     64 * kGiBi,
     32 * kMiBi,
     kMiBi,
     true,
     {},
     20,
     KnobOwner::kAgent,
     "",
     "DRAM for read hits, against memory of the host; at most 10 % of it."},
    {KnobId::kReadaheadBlocks,
     "readahead_blocks",
     KnobKind::kInteger,
     0,
     256,
     8,
     1,
     true,
     {},
     3,
     KnobOwner::kAgent,
     "",
     "Blocks of 4 KiB fetched ahead of a sequential read, against pollution of the read cache."},
    {KnobId::kSequentialBypassBytes,
     "sequential_bypass_bytes",
     KnobKind::kBytes,
     0,
     kGiBi,
     0,
     64 * kKiBi,
     true,
     {},
     3,
     KnobOwner::kAgent,
     "",
     "A sequential read stream longer than this leaves no copies in the read cache; 0 never "
     "bypasses."},
    {KnobId::kDestageWatermark,
     "destage_watermark",
     KnobKind::kPercent,
     5,
     90,
     50,
     1,
     false,
     {},
     10,
     KnobOwner::kAgent,
     "",
     "Dirty share of the write space at which draining starts: coalescing against burst room."},
    {KnobId::kDestagePoliteness,
     "destage_politeness",
     KnobKind::kInteger,
     0,
     100,
     50,
     5,
     false,
     {},
     5,
     KnobOwner::kAgent,
     "",
     "How far destage yields to foreground reads: their latency against the time to empty."},
    {KnobId::kDestageBatchBytes,
     "destage_batch_bytes",
     KnobKind::kBytes,
     256 * kKiBi,
     64 * kMiBi,
     4 * kMiBi,
     256 * kKiBi,
     true,
     {},
     5,
     KnobOwner::kAgent,
     "",
     "Bytes sorted and written together by destage: large ordered extents against latency."},
    {KnobId::kDestageParallelism,
     "destage_parallelism",
     KnobKind::kInteger,
     1,
     8,
     1,
     1,
     false,
     {},
     5,
     KnobOwner::kAgent,
     "",
     "Extents in flight to each capacity device and threads that compress: drain rate against "
     "foreground latency."},
    {KnobId::kThrottleSoftness,
     "throttle_softness",
     KnobKind::kInteger,
     0,
     100,
     50,
     5,
     false,
     {},
     5,
     KnobOwner::kAgent,
     "",
     "How early the write slow-down starts and how gently it bends: no cliff against full speed "
     "longer."},
    {KnobId::kFlushGroupUs,
     "flush_group_us",
     KnobKind::kMicroseconds,
     0,
     5000,
     0,
     50,
     false,
     {},
     3,
     KnobOwner::kAgent,
     "",
     "How long a flush waits for company: flush latency against flushes a second of the cache "
     "device."},
    {KnobId::kCompression, "compression", KnobKind::kChoice, 0, 3, 1, 1, false, kCompressionWords,
     10, KnobOwner::kOperator, "",
     "Codec on destage: processor time and read amplification against capacity bandwidth and "
     "space."},
    {KnobId::kCompressionUnitBytes,
     "compression_unit_bytes",
     KnobKind::kBytes,
     4 * kKiBi,
     128 * kKiBi,
     32 * kKiBi,
     4 * kKiBi,
     true,
     {},
     10,
     KnobOwner::kOperator,
     "compression",
     "Bytes compressed together: a better ratio against reading more than was asked for."},
    {KnobId::kDedup, "dedup", KnobKind::kChoice, 0, 2, 1, 1, false, kDedupWords, 10,
     KnobOwner::kOperator, "",
     "Store equal blocks once: processor time and index against space and capacity bandwidth; "
     "sampled finds copied runs for a fraction of the cost of on."},
    {KnobId::kReadPolicy, "read_policy", KnobKind::kChoice, 0, 1, 1, 1, false, kReadPolicyWords, 20,
     KnobOwner::kOperator, "",
     "Eviction order of the read cache: scan resistance against recency."},
    {KnobId::kReadAdmission, "read_admission", KnobKind::kChoice, 0, 2, 1, 1, false,
     kReadAdmissionWords, 20, KnobOwner::kOperator, "",
     "Which misses enter the read cache: one-time reads kept out against a later first hit; "
     "frequency also protects what is read often from what is read less. What the cache device "
     "served enters at its second read at the earliest."},
    {KnobId::kCompactionPoliteness,
     "compaction_politeness",
     KnobKind::kInteger,
     0,
     100,
     50,
     5,
     false,
     {},
     30,
     KnobOwner::kAgent,
     "",
     "How long compaction waits for clients to be idle: their latency and bandwidth against space "
     "that comes back late."},
    {KnobId::kScrubMibps,
     "scrub_mibps",
     KnobKind::kInteger,
     0,
     1024,
     0,
     1,
     true,
     {},
     10,
     KnobOwner::kOperator,
     "",
     "MiB a second that the scrubber reads and verifies, 0 none: damage found early against "
     "bandwidth of both tiers."},
}};

// Levenshtein distance: names are short, so the quadratic form is fine.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const KnobSpec> KnobTable() { return kTable; }

const KnobSpec& Spec(KnobId id) {
  const KnobSpec& spec = kTable[static_cast<size_t>(id)];
  EBB_CHECK(spec.id == id);
  return spec;
}

const KnobSpec* FindKnob(std::string_view name) {
  const auto* found = std::find_if(kTable.begin(), kTable.end(),
                                   [&](const KnobSpec& spec) { return spec.name == name; });
  return found == kTable.end() ? nullptr : found;
}

std::string_view NearestKnobName(std::string_view name) {
  std::string_view nearest;
  size_t best = std::max<size_t>(3, name.size() / 3) + 1;
  for (const KnobSpec& spec : kTable) {
    if (const size_t distance = EditDistance(name, spec.name); distance < best) {
      best = distance;
      nearest = spec.name;
    }
  }
  return nearest;
}

Setting::Setting() : values_{} {
  for (const KnobSpec& spec : kTable) Set(spec.id, spec.default_value);
}

int64_t KnobMax(const KnobSpec& spec, const KnobLimits& limits) {
  if (spec.id != KnobId::kReadCacheBytes || limits.host_memory_bytes == 0) return spec.max;
  const auto allowed =
      static_cast<int64_t>(std::min<uint64_t>(limits.host_memory_bytes / 10, kMaxInt64));
  return std::min(spec.max, allowed - allowed % spec.step);
}

std::vector<std::string> SettingFaults(const Setting& setting, const KnobLimits& limits) {
  std::vector<std::string> faults;
  for (const KnobSpec& spec : kTable) {
    const int64_t value = setting[spec.id];
    const int64_t max = KnobMax(spec, limits);
    if (value < spec.min || value > max) {
      faults.push_back(fmt::format("{} must be between {} and {}, not {}", spec.name,
                                   FormatKnobValue(spec, spec.min), FormatKnobValue(spec, max),
                                   FormatKnobValue(spec, value)));
    } else if ((value - spec.min) % spec.step != 0) {
      faults.push_back(fmt::format("{} must be {} plus a multiple of {}, not {}", spec.name,
                                   spec.min, spec.step, value));
    }
  }
  return faults;
}

std::string FormatKnobValue(const KnobSpec& spec, int64_t value) {
  switch (spec.kind) {
    case KnobKind::kBytes:
      return value < 0 ? fmt::format("{} B", value) : FormatBytes(static_cast<uint64_t>(value));
    case KnobKind::kPercent:
      return fmt::format("{} %", value);
    case KnobKind::kMicroseconds:
      return fmt::format("{} us", value);
    case KnobKind::kChoice:
      if (value >= 0 && static_cast<size_t>(value) < spec.choices.size()) {
        return std::string(spec.choices[static_cast<size_t>(value)]);
      }
      return fmt::format("choice {}", value);
    case KnobKind::kInteger:
      break;
  }
  return fmt::format("{}", value);
}

std::optional<int64_t> ParseChoice(const KnobSpec& spec, std::string_view word) {
  for (size_t i = 0; i < spec.choices.size(); ++i) {
    if (spec.choices[i] == word) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

}  // namespace ebb::storage
