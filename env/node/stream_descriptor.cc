#include "env/node/stream_descriptor.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/units.h"

namespace ebb::env {
namespace {

constexpr size_t kHeldMax = 65'536;
// Requests that take longer are not seen by those who meet them.
constexpr uint64_t kHoldNsMax = 2 * kNsPerS;
constexpr size_t kInFlightMax = 4096;
constexpr size_t kStreamsMax = 32;
constexpr size_t kRecentMax = 8192;
constexpr size_t kRecentMin = 64;
constexpr uint64_t kBlockBytes = 4096;
constexpr size_t kContentsMax = 8192;
constexpr size_t kContentsMin = 64;
constexpr size_t kCurveSamples = 4096;
constexpr double kCurveBlocks = 1 << 20;  // that a curve remembers
constexpr uint64_t kSlotNs = 10 * kNsPerMs;

// Below this many arrivals the window says nothing about what kind of clients these are.
constexpr uint64_t kArrivalsMin = 30;
// Index of dispersion (variance over mean) of the requests an arrival meets: 1 for arrivals that
// keep their own pace. Between the two the last answer stands.
constexpr double kClosedDispersionMax = 0.6;
constexpr double kOpenDispersionMin = 0.8;
// Clients who spend less of their time than this in the store set the pace themselves.
constexpr double kStoreTimeShareMin = 0.3;
// With more than this share of their time in the store, the number of clients is sharp.
constexpr double kSharpShare = 0.7;
constexpr double kClientsKeptPerWindow = 0.98;
// Clients who wait for a store that became faster send faster: while their rate holds, they are the
// same clients, however little of their time the store takes.
constexpr double kPaceKeptShare = 0.9;
constexpr double kPaceWeight = 0.2;  // of a window in the mean pace
// Without a sample to tell by: so many requests under way look like clients that wait.
constexpr double kClosedInFlightMin = 0.8;

size_t SizeClass(uint64_t bytes) {
  size_t size_class = 0;
  for (uint64_t limit = kBlockBytes;
       bytes > limit && size_class + 1 < WorkloadDescriptor::kSizeClasses; limit *= 4) {
    ++size_class;
  }
  return size_class;
}

// Shares of `counts`, which are left at zero for the next window.
template <size_t kCount>
void TakeShares(std::array<uint64_t, kCount>& counts, std::array<double, kCount>& shares) {
  uint64_t all = 0;
  for (const uint64_t count : counts) all += count;
  for (size_t i = 0; i < kCount; ++i) {
    shares[i] = all == 0 ? 0 : static_cast<double>(counts[i]) / static_cast<double>(all);
  }
  counts.fill(0);
}

}  // namespace

StreamDescriptor::StreamDescriptor(uint64_t volume_bytes, double shrunk)
    : volume_bytes_(volume_bytes),
      shrunk_(shrunk),
      reuse_(kCurveSamples),
      overwrites_(kCurveSamples) {}

void StreamDescriptor::Reset() { *this = StreamDescriptor(volume_bytes_, shrunk_); }

void StreamDescriptor::Add(std::span<const StreamEntry> entries, double sample_rate) {
  uint64_t newest_end_ns = 0;
  uint64_t longest_ns = 0;
  for (const StreamEntry& entry : entries) {
    newest_end_ns = std::max(newest_end_ns, entry.time_ns + entry.service_ns);
    longest_ns = std::max(longest_ns, entry.service_ns);
  }
  for (const StreamEntry& entry : entries) held_.push_back({entry, sample_rate});
  std::stable_sort(held_.begin(), held_.end(),
                   [](const Held& a, const Held& b) { return a.entry.time_ns < b.entry.time_ns; });
  const uint64_t complete_until_ns =
      newest_end_ns - std::min({longest_ns, kHoldNsMax, newest_end_ns});
  size_t counted = 0;
  while (counted < held_.size() &&
         (held_[counted].entry.time_ns <= complete_until_ns || held_.size() - counted > kHeldMax)) {
    Count(held_[counted++]);
  }
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(counted));
}

void StreamDescriptor::Count(const Held& held) {
  const StreamEntry& entry = held.entry;
  sample_rate_ = held.sample_rate;
  ++arrivals_;
  ++slots_[entry.time_ns / kSlotNs];
  CountConcurrency(entry);
  if (entry.op == 'R' || entry.op == 'W') {
    CountSequential(entry, held.sample_rate);
    CountRepeat(entry);
    CountSize(entry);
    CountBlocks(entry, held.sample_rate);
    if (entry.has_content) CountContent(entry);
  }
}

void StreamDescriptor::CountSize(const StreamEntry& entry) {
  ++(entry.op == 'R' ? read_sizes_ : write_sizes_)[SizeClass(entry.bytes)];
}

void StreamDescriptor::CountBlocks(const StreamEntry& entry, double sample_rate) {
  uint64_t end_byte = entry.offset + entry.bytes;
  // What lies in the next region belongs to that one's sample.
  const uint64_t region_end_byte = (entry.offset / kSampledRegionBytes + 1) * kSampledRegionBytes;
  if (sample_rate < 1) end_byte = std::min(end_byte, region_end_byte);
  const uint64_t end = (end_byte + kBlockBytes - 1) / kBlockBytes;
  for (uint64_t block = entry.offset / kBlockBytes; block < end; ++block) {
    reuse_.Access(block, sample_rate);
    if (entry.op == 'W') overwrites_.Access(block, sample_rate);
  }
}

void StreamDescriptor::CountContent(const StreamEntry& entry) {
  ++looked_at_;
  contents_.push_back({entry.fingerprint, entry.compressed_per_mille});
  ++content_counts_[entry.fingerprint];
  if (contents_.size() <= kContentsMax) return;
  const auto oldest = content_counts_.find(contents_.front().fingerprint);
  if (--oldest->second == 0) content_counts_.erase(oldest);
  contents_.pop_front();
}

void StreamDescriptor::CountConcurrency(const StreamEntry& entry) {
  const auto later = std::greater<>();
  while (!in_flight_ends_ns_.empty() && in_flight_ends_ns_.front() <= entry.time_ns) {
    std::pop_heap(in_flight_ends_ns_.begin(), in_flight_ends_ns_.end(), later);
    in_flight_ends_ns_.pop_back();
  }
  const auto met = static_cast<double>(in_flight_ends_ns_.size());
  met_sum_ += met;
  met_square_sum_ += met * met;
  if (in_flight_ends_ns_.size() == kInFlightMax) return;
  in_flight_ends_ns_.push_back(entry.time_ns + entry.service_ns);
  std::push_heap(in_flight_ends_ns_.begin(), in_flight_ends_ns_.end(), later);
}

void StreamDescriptor::CountSequential(const StreamEntry& entry, double sample_rate) {
  // What came before the first request of a sampled region is in another region: unknown.
  const bool hidden = sample_rate < 1 && entry.offset % kSampledRegionBytes == 0;
  const auto found = std::find(stream_ends_.begin(), stream_ends_.end(), entry.offset);
  const bool continues = found != stream_ends_.end();
  if (continues) stream_ends_.erase(found);
  if (!hidden) {
    ++placed_;
    sequential_ += continues ? 1 : 0;
  }
  stream_ends_.push_back(entry.offset + entry.bytes);
  if (stream_ends_.size() > kStreamsMax) stream_ends_.pop_front();
}

void StreamDescriptor::CountRepeat(const StreamEntry& entry) {
  const uint64_t block = entry.offset / kBlockBytes;
  recent_blocks_.push_back(block);
  ++block_counts_[block];
  if (recent_blocks_.size() <= kRecentMax) return;
  const auto oldest = block_counts_.find(recent_blocks_.front());
  if (--oldest->second == 0) block_counts_.erase(oldest);
  recent_blocks_.pop_front();
}

// Moments of the requests an arrival meets: n clients of whom each is in the store with probability
// p show mean (n - 1) p and variance (n - 1) p (1 - p). Thinning the stream by a sample rate s
// turns the mean into s * mean and 1 - dispersion into s * (1 - dispersion), so their ratio, n - 1,
// stays.
void StreamDescriptor::DecideLoop(const WindowTotals& totals) {
  if (arrivals_ < kArrivalsMin || sample_rate_ < 1) {
    // Too few to judge by, or (the spread of a thinned number tells too little) too thin.
    if (!loop_known_ || totals.mean_in_flight > 1.2 * std::max(1.0, clients_)) {
      closed_loop_ = totals.mean_in_flight >= kClosedInFlightMin;
      clients_ = std::max(1.0, totals.mean_in_flight);
    }
    return;
  }
  const auto n = static_cast<double>(arrivals_);
  const double mean = met_sum_ / n;
  const double variance = std::max(0.0, met_square_sum_ / n - mean * mean);
  // Arrivals that never meet: one client, or so few that nobody met by chance.
  const double chance_meetings = n * totals.mean_in_flight;
  double dispersion = mean > 0 ? variance / mean : (chance_meetings > 20 ? 0 : 1);
  const double clients = 1 + (dispersion < 1 ? mean / (1 - dispersion) : 0);
  const double in_store = totals.mean_in_flight / clients;
  const double rate = static_cast<double>(totals.reads + totals.writes) / totals.seconds;
  if (in_store < kStoreTimeShareMin) dispersion = 1;
  if (dispersion <= kClosedDispersionMax) {
    // Clients that mostly wait outside are counted too low: a greater number seen before stands,
    // fading.
    clients_ = in_store >= kSharpShare || !closed_loop_
                   ? clients
                   : std::max(clients, kClientsKeptPerWindow * clients_);
    pace_ops_per_s_ =
        closed_loop_ ? pace_ops_per_s_ + kPaceWeight * (rate - pace_ops_per_s_) : rate;
    closed_loop_ = true;
  } else if (dispersion >= kOpenDispersionMin &&
             !(closed_loop_ && rate >= kPaceKeptShare * pace_ops_per_s_)) {
    closed_loop_ = false;
  }
  loop_known_ = true;
}

// d distinct blocks among k draws from n equally likely ones: d = n (1 - exp(-k / n)), solved for
// n.
double StreamDescriptor::WorkingSetBytes(const WindowTotals& totals) const {
  const auto draws = static_cast<double>(recent_blocks_.size());
  const auto distinct = static_cast<double>(block_counts_.size());
  const uint64_t requests = totals.reads + totals.writes;
  if (recent_blocks_.size() < kRecentMin || requests == 0) return 0;
  const double request_bytes =
      static_cast<double>(totals.read_bytes + totals.write_bytes) / static_cast<double>(requests);
  double low = distinct;
  double high = draws * draws;  // beyond, half a repeat would be expected
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (middle * -std::expm1(-draws / middle) < distinct ? low : high) = middle;
  }
  return std::min(shrunk_ * low * request_bytes / sample_rate_, static_cast<double>(volume_bytes_));
}

void StreamDescriptor::FillCurves(WorkloadDescriptor& descriptor) const {
  for (size_t i = 0; i < WorkloadDescriptor::kCurvePoints; ++i) {
    const auto blocks = static_cast<uint64_t>(
        static_cast<double>(WorkloadDescriptor::CurveBytes(i)) / kBlockBytes / shrunk_);
    descriptor.miss_ratios[i] = reuse_.MissRatio(blocks);
    descriptor.overwrite_shares[i] = 1 - overwrites_.MissRatio(blocks);
  }
}

// Where a share s of the writes is looked at, of two equal ones both are seen with chance s^2 only.
// Content seen twice therefore stands for 1/s^2 pairs, of which one half was met alone 2 (1 - s) /
// s times as often; content seen more often is common enough to be seen.
void StreamDescriptor::FillContent(const WindowTotals& totals, WorkloadDescriptor& descriptor) {
  if (looked_at_ > 0 && totals.writes > 0) {
    looked_at_share_ = std::min(
        1.0, static_cast<double>(looked_at_) / (static_cast<double>(totals.writes) * shrunk_));
  }
  if (contents_.size() < kContentsMin) return;
  double alone = 0;
  double twice = 0;
  double copies = 0;  // of what was seen more often
  for (const auto& [fingerprint, count] : content_counts_) {
    if (count == 1) ++alone;
    if (count == 2) ++twice;
    if (count > 2) copies += count - 1;
  }
  const double met_alone = std::min(alone, 2 * (1 - looked_at_share_) / looked_at_share_ * twice);
  const auto all = static_cast<double>(contents_.size());
  double left_per_mille = 0;
  for (const Content& content : contents_) left_per_mille += content.compressed_per_mille;
  descriptor.duplicate_share = (copies + twice + met_alone / 2) / all;
  descriptor.compressible_share = 1 - left_per_mille / 1000 / all;
}

double StreamDescriptor::Burstiness(double seconds) const {
  const double slots = std::max(1.0, std::round(seconds * 1e9 / static_cast<double>(kSlotNs)));
  const double mean = static_cast<double>(arrivals_) / slots;
  if (!(mean > 0)) return 0;
  double square_sum = 0;
  for (const auto& [slot, count] : slots_) {
    square_sum += static_cast<double>(count) * static_cast<double>(count);
  }
  return std::max(0.0, square_sum / slots / (mean * mean) - 1);
}

WorkloadDescriptor StreamDescriptor::Finish(const WindowTotals& totals) {
  WorkloadDescriptor descriptor;
  const uint64_t requests = totals.reads + totals.writes;
  if (requests > 0 && totals.seconds > 0) {
    DecideLoop(totals);
    if (closed_loop_) {
      descriptor.mean_in_flight = clients_;
    } else {
      descriptor.offered_ops_per_s = static_cast<double>(requests) / totals.seconds;
      descriptor.offered_bytes_per_s =
          static_cast<double>(totals.read_bytes + totals.write_bytes) / totals.seconds;
      descriptor.burstiness = Burstiness(totals.seconds);
    }
    descriptor.read_share = static_cast<double>(totals.reads) / static_cast<double>(requests);
    if (totals.reads > 0) {
      descriptor.mean_read_bytes =
          static_cast<double>(totals.read_bytes) / static_cast<double>(totals.reads);
    }
    if (totals.writes > 0) {
      descriptor.mean_write_bytes =
          static_cast<double>(totals.write_bytes) / static_cast<double>(totals.writes);
    }
    if (placed_ > 0) {
      descriptor.sequential_share = static_cast<double>(sequential_) / static_cast<double>(placed_);
    }
    descriptor.working_set_bytes = WorkingSetBytes(totals);
    TakeShares(read_sizes_, descriptor.read_sizes);
    TakeShares(write_sizes_, descriptor.write_sizes);
    FillCurves(descriptor);
    FillContent(totals, descriptor);
  }
  reuse_.Fade(kCurveBlocks);
  overwrites_.Fade(kCurveBlocks);
  looked_at_ = 0;
  arrivals_ = placed_ = sequential_ = 0;
  met_sum_ = met_square_sum_ = 0;
  slots_.clear();
  return descriptor;
}

}  // namespace ebb::env
