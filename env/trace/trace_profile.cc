#include "env/trace/trace_profile.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "base/units.h"
#include "env/trace/block_sample.h"

namespace ebb::env {
namespace {

using trace::kTraceBlockBytes;
using trace::TraceOp;
using trace::TraceRecord;

constexpr size_t kTopSizes = 3;
constexpr size_t kSizesMax = 65'536;
// Devices whose last request is remembered; those beyond count as random.
constexpr size_t kDevicesMax = 1 << 20;
// The blocks of one request that are looked at one by one; a trim or read of a whole device would
// be a billion.
constexpr uint64_t kBlocksOfRequestMax = 1 << 16;

// How often each length occurs. Exact up to kSizesMax different ones; then lengths are rounded.
class SizeCounts {
 public:
  void Add(uint64_t bytes) {
    ++counts_[bytes & mask_];
    ++total_;
    while (counts_.size() > kSizesMax) Coarsen();
  }
  uint64_t Quantile(double q) const {
    const auto rank = static_cast<uint64_t>(q * static_cast<double>(total_));
    uint64_t below = 0;
    for (const auto& [bytes, count] : counts_) {
      below += count;
      if (below > rank) return bytes;
    }
    return counts_.empty() ? 0 : counts_.rbegin()->first;
  }
  std::vector<std::pair<uint64_t, double>> Top() const {
    std::vector<std::pair<uint64_t, double>> top;
    for (const auto& [bytes, count] : counts_) {
      top.emplace_back(bytes, static_cast<double>(count) / static_cast<double>(total_));
    }
    std::sort(top.begin(), top.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second, a.first) > std::pair(b.second, b.first);
    });
    if (top.size() > kTopSizes) top.resize(kTopSizes);
    return top;
  }

 private:
  void Coarsen() {
    mask_ <<= 1;
    std::map<uint64_t, uint64_t> coarse;
    for (const auto& [bytes, count] : counts_) coarse[bytes & mask_] += count;
    counts_ = std::move(coarse);
  }

  uint64_t mask_ = ~uint64_t{0};
  uint64_t total_ = 0;
  std::map<uint64_t, uint64_t> counts_;
};

// Requests in windows of one length.
class WindowCounts {
 public:
  explicit WindowCounts(uint64_t window_ns) : window_ns_(window_ns) {}

  void Add(uint64_t time_ns) {
    const uint64_t window = time_ns / window_ns_;
    if (requests_ + in_window_ == 0) first_window_ = window;
    if (window != window_) Close();
    window_ = window;
    ++in_window_;
  }
  BurstProfile Finish() const {
    WindowCounts all = *this;
    all.Close();
    const auto windows = static_cast<double>(window_ - first_window_ + 1);
    const double mean = static_cast<double>(all.requests_) / windows;
    const double variance = all.squares_ / windows - mean * mean;
    return {.window_ns = window_ns_,
            .requests_max = all.requests_max_,
            .idle_share = 1 - static_cast<double>(all.busy_windows_) / windows,
            .variance_over_mean = mean > 0 ? variance / mean : 0};
  }

 private:
  void Close() {
    if (in_window_ == 0) return;
    ++busy_windows_;
    requests_ += in_window_;
    requests_max_ = std::max(requests_max_, in_window_);
    squares_ += static_cast<double>(in_window_) * static_cast<double>(in_window_);
    in_window_ = 0;
  }

  uint64_t window_ns_;
  uint64_t first_window_ = 0;
  uint64_t window_ = 0;  // the last one
  uint64_t in_window_ = 0;
  uint64_t busy_windows_ = 0;
  uint64_t requests_ = 0;
  uint64_t requests_max_ = 0;
  double squares_ = 0;
};

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::optional<double> TraceProfile::PeakOverMean() const {
  if (!span_s.has_value() || reads + writes == 0) return std::nullopt;
  const double mean = static_cast<double>(reads + writes) / std::max(*span_s, 1.0);
  for (const BurstProfile& burst : bursts) {
    if (burst.window_ns == kNsPerS) return static_cast<double>(burst.requests_max) / mean;
  }
  return std::nullopt;
}

struct TraceProfiler::State {
  explicit State(const TraceTraits& source_traits) : traits(source_traits) {}

  uint64_t requests() const { return profile.reads + profile.writes; }
  void AddBlocks(const TraceRecord& record);
  void AddContents(const TraceRecord& record);

  const TraceTraits traits;
  TraceProfile profile;
  SizeCounts sizes;
  std::vector<WindowCounts> windows = {WindowCounts(10 * kNsPerMs), WindowCounts(100 * kNsPerMs),
                                       WindowCounts(kNsPerS), WindowCounts(10 * kNsPerS)};
  uint64_t first_ns = 0;
  uint64_t last_ns = 0;
  uint64_t sequential = 0;
  uint64_t unaligned = 0;
  absl::flat_hash_map<uint64_t, uint64_t> device_ends;
  BlockSample touched{kExactBlocks};
  BlockSample written{kExactBlocks};
  BlockSample contents{kExactBlocks};
  MissRatioCurve miss_ratios;
  uint64_t zero_blocks = 0;
  double compressed_bytes = 0;
  uint64_t compressible_bytes = 0;
};

void TraceProfiler::State::AddBlocks(const TraceRecord& record) {
  const uint64_t first = record.offset / kTraceBlockBytes;
  const uint64_t count =
      std::min(trace::BlocksTouched(record.offset, record.bytes), kBlocksOfRequestMax);
  for (uint64_t block = first; block < first + count; ++block) {
    const uint64_t key = PlaceKey(record.device, block);
    touched.Add(key);
    miss_ratios.Access(key);
    if (record.op == TraceOp::kWrite) written.Add(key);
  }
}

void TraceProfiler::State::AddContents(const TraceRecord& record) {
  if (record.op != TraceOp::kWrite || record.fingerprints.empty()) return;
  for (const uint64_t fingerprint : record.fingerprints) {
    ++profile.content_blocks;
    zero_blocks += fingerprint == 0 ? 1 : 0;
    contents.Add(fingerprint);
  }
  compressible_bytes += record.bytes;
  compressed_bytes += static_cast<double>(record.bytes) * record.compressed_per_mille / 1000;
}

TraceProfiler::TraceProfiler(const TraceTraits& traits) : state_(std::make_unique<State>(traits)) {}
TraceProfiler::~TraceProfiler() = default;

void TraceProfiler::Add(const TraceRecord& record, uint64_t clock_ns) {
  State& state = *state_;
  TraceProfile& profile = state.profile;
  profile.fua_requests += record.fua ? 1 : 0;
  profile.needed_bytes = std::max(profile.needed_bytes, record.offset + record.bytes);
  switch (record.op) {
    case TraceOp::kFlush:
      ++profile.flushes;
      return;
    case TraceOp::kTrim:
      ++profile.trims;
      profile.trim_bytes += record.bytes;
      return;
    case TraceOp::kWriteZeroes:
      ++profile.zeroes;
      profile.zero_bytes += record.bytes;
      return;
    case TraceOp::kRead:
      ++profile.reads;
      profile.read_bytes += record.bytes;
      break;
    case TraceOp::kWrite:
      ++profile.writes;
      profile.write_bytes += record.bytes;
      break;
  }
  if (state.requests() == 1) state.first_ns = record.time_ns;
  state.last_ns = record.time_ns;
  if (state.traits.has_times) {
    for (WindowCounts& window : state.windows) window.Add(clock_ns + record.time_ns);
  }
  state.sizes.Add(record.bytes);
  const bool aligned =
      record.offset % kTraceBlockBytes == 0 && record.bytes % kTraceBlockBytes == 0;
  state.unaligned += aligned ? 0 : 1;
  auto end = state.device_ends.find(record.device);
  if (end == state.device_ends.end() && state.device_ends.size() < kDevicesMax) {
    end = state.device_ends.emplace(record.device, ~uint64_t{0}).first;
  }
  if (end != state.device_ends.end()) {
    state.sequential += end->second == record.offset ? 1 : 0;
    end->second = record.offset + record.bytes;
  }
  state.AddBlocks(record);
  state.AddContents(record);
}

TraceProfile TraceProfiler::Finish() const {
  const State& state = *state_;
  TraceProfile profile = state.profile;
  const uint64_t requests = state.requests();
  profile.devices = state.device_ends.size();
  profile.bytes_p50_p90_p99 = {state.sizes.Quantile(0.5), state.sizes.Quantile(0.9),
                               state.sizes.Quantile(0.99)};
  profile.top_sizes = state.sizes.Top();
  profile.footprint_blocks = state.touched.distinct();
  profile.blocks_exact = state.touched.exact();
  profile.reuse_share = state.touched.repeat_share();
  profile.sequential_share = Share(state.sequential, requests);
  profile.unaligned_share = Share(state.unaligned, requests);
  if (state.traits.has_ops) {
    profile.read_share = Share(profile.reads, requests);
    profile.rewrite_share = state.written.repeat_share();
  }
  if (state.traits.has_times) {
    profile.span_s = static_cast<double>(state.last_ns - state.first_ns) / kNsPerS;
    if (*profile.span_s > 0) profile.mean_iops = static_cast<double>(requests) / *profile.span_s;
    for (const WindowCounts& window : state.windows) profile.bursts.push_back(window.Finish());
  }
  profile.miss_ratios = state.miss_ratios.Points();
  profile.distinct_contents = state.contents.distinct();
  profile.duplicate_share = state.contents.repeat_share();
  profile.zero_share = Share(state.zero_blocks, profile.content_blocks);
  if (state.traits.has_compressibility && state.compressible_bytes > 0) {
    profile.compressed_share =
        state.compressed_bytes / static_cast<double>(state.compressible_bytes);
  }
  return profile;
}

absl::StatusOr<TraceProfile> ProfileTrace(
    TraceSource& source, const std::function<void(const TraceSource&)>& on_progress) {
  constexpr uint64_t kProgressRecords = 1 << 16;
  TraceProfiler profiler(source.traits());
  TraceRecord record;
  for (uint64_t count = 1;; ++count) {
    EBB_ASSIGN_OR_RETURN(const bool more, source.Next(&record));
    if (!more) return profiler.Finish();
    profiler.Add(record, source.counts().first_stamp_ns);
    if (on_progress && count % kProgressRecords == 0) on_progress(source);
  }
}

}  // namespace ebb::env
