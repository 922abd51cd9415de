// LatencyHistogram: log-linear buckets of nanoseconds, mergeable and subtractable.
//
// 16 buckets an octave (relative error of a quantile at most 1/16 = 6.25 %, half of that with the
// bucket's middle), values up to about 73 minutes, 2.6 KB of counters. The buckets are the same in
// every process, so a window is the difference of two cumulative histograms and a fleet is a sum.
// Record is not thread-safe: one histogram a thread or a lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ebb {

class LatencyHistogram {
 public:
  static constexpr int kSubBucketBits = 4;
  static constexpr size_t kBucketCount = (42 - kSubBucketBits + 1) << kSubBucketBits;

  void Record(uint64_t ns, uint64_t count = 1) {
    counts_[BucketOf(ns)] += count;
    count_ += count;
    sum_ns_ += ns * count;
  }
  void Merge(const LatencyHistogram& other);
  // This histogram minus an `earlier` snapshot of the same one.
  LatencyHistogram Since(const LatencyHistogram& earlier) const;

  uint64_t count() const { return count_; }
  uint64_t sum_ns() const { return sum_ns_; }
  double MeanNs() const {
    return count_ == 0 ? 0 : static_cast<double>(sum_ns_) / static_cast<double>(count_);
  }
  // The value at quantile q in [0, 1], interpolated inside its bucket; 0 when empty.
  double QuantileNs(double q) const;

  // Non-empty buckets as (bucket number, count), ascending: the wire form.
  std::vector<std::pair<uint32_t, uint64_t>> Sparse() const;
  // The inverse of Sparse; false when a bucket number is out of range.
  static bool FromSparse(const std::vector<std::pair<uint32_t, uint64_t>>& buckets, uint64_t sum_ns,
                         LatencyHistogram& out);

  static size_t BucketOf(uint64_t ns);
  static uint64_t BucketLowNs(size_t bucket);
  static uint64_t BucketHighNs(size_t bucket) { return BucketLowNs(bucket + 1); }

 private:
  std::array<uint64_t, kBucketCount> counts_{};
  uint64_t count_ = 0;
  uint64_t sum_ns_ = 0;
};

}  // namespace ebb
