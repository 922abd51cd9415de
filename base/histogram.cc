#include "base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace ebb {

// Values below 2^kSubBucketBits have a bucket each; above, an octave is cut into 2^kSubBucketBits.
size_t LatencyHistogram::BucketOf(uint64_t ns) {
  constexpr uint64_t kLinear = uint64_t{1} << kSubBucketBits;
  if (ns < kLinear) return static_cast<size_t>(ns);
  const int shift = static_cast<int>(std::bit_width(ns)) - 1 - kSubBucketBits;
  const size_t bucket =
      (static_cast<size_t>(shift) << kSubBucketBits) + static_cast<size_t>(ns >> shift);
  return std::min(bucket, kBucketCount - 1);
}

uint64_t LatencyHistogram::BucketLowNs(size_t bucket) {
  constexpr size_t kLinear = size_t{1} << kSubBucketBits;
  if (bucket < 2 * kLinear) return bucket;
  const size_t shift = (bucket >> kSubBucketBits) - 1;
  return static_cast<uint64_t>(kLinear + (bucket & (kLinear - 1))) << shift;
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (size_t i = 0; i < kBucketCount; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ns_ += other.sum_ns_;
}

LatencyHistogram LatencyHistogram::Since(const LatencyHistogram& earlier) const {
  LatencyHistogram delta;
  for (size_t i = 0; i < kBucketCount; ++i) {
    EBB_CHECK(counts_[i] >= earlier.counts_[i]);
    delta.counts_[i] = counts_[i] - earlier.counts_[i];
  }
  delta.count_ = count_ - earlier.count_;
  delta.sum_ns_ = sum_ns_ - earlier.sum_ns_;
  return delta;
}

double LatencyHistogram::QuantileNs(double q) const {
  if (count_ == 0) return 0;
  const double rank = std::clamp(q, 0.0, 1.0) * static_cast<double>(count_);
  double below = 0;
  for (size_t i = 0; i < kBucketCount; ++i) {
    const auto in_bucket = static_cast<double>(counts_[i]);
    if (in_bucket > 0 && below + in_bucket >= rank) {
      const auto low = static_cast<double>(BucketLowNs(i));
      const auto high = static_cast<double>(BucketHighNs(i));
      return low + (high - low) * std::max(0.0, rank - below) / in_bucket;
    }
    below += in_bucket;
  }
  return static_cast<double>(BucketHighNs(kBucketCount - 1));
}

std::vector<std::pair<uint32_t, uint64_t>> LatencyHistogram::Sparse() const {
  std::vector<std::pair<uint32_t, uint64_t>> buckets;
  for (size_t i = 0; i < kBucketCount; ++i) {
    if (counts_[i] != 0) buckets.emplace_back(static_cast<uint32_t>(i), counts_[i]);
  }
  return buckets;
}

bool LatencyHistogram::FromSparse(const std::vector<std::pair<uint32_t, uint64_t>>& buckets,
                                  uint64_t sum_ns, LatencyHistogram& out) {
  out = LatencyHistogram();
  for (const auto& [bucket, count] : buckets) {
    if (bucket >= kBucketCount) return false;
    out.counts_[bucket] += count;
    out.count_ += count;
  }
  out.sum_ns_ = sum_ns;
  return true;
}

}  // namespace ebb
