#include "env/trace/miss_ratio_curve.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "env/trace/block_sample.h"

namespace ebb::env {
namespace {

// Buckets of distances: exact below 64, then 64 an octave.
constexpr uint64_t kExact = 64;
constexpr int kExactBits = 6;
constexpr double kDistanceMax = 0x1p62;

size_t BucketOf(uint64_t distance) {
  if (distance < kExact) return distance;
  const int octave = static_cast<int>(std::bit_width(distance)) - 1 - kExactBits;
  return kExact + (static_cast<size_t>(octave) << kExactBits) + ((distance >> octave) - kExact);
}

// The smallest distance in `bucket`.
uint64_t BucketLow(size_t bucket) {
  if (bucket < kExact) return bucket;
  const size_t octave = (bucket - kExact) >> kExactBits;
  return (kExact + ((bucket - kExact) & (kExact - 1))) << octave;
}

}  // namespace

MissRatioCurve::MissRatioCurve(size_t samples_max)
    : samples_max_(samples_max), tree_(4 * samples_max + 1) {}

void MissRatioCurve::Mark(size_t position, int change) {
  for (size_t i = position + 1; i < tree_.size(); i += i & (~i + 1)) {
    tree_[i] = static_cast<uint32_t>(static_cast<int64_t>(tree_[i]) + change);
  }
}

size_t MissRatioCurve::DistinctSince(size_t position) const {
  size_t upto = 0;
  for (size_t i = position + 1; i > 0; i -= i & (~i + 1)) upto += tree_[i];
  return last_position_.size() - upto;
}

// Positions are used up: the blocks get new ones, in the same order.
void MissRatioCurve::Renumber() {
  std::vector<std::pair<size_t, uint64_t>> order;
  order.reserve(last_position_.size());
  for (const auto& [hash, position] : last_position_) order.emplace_back(position, hash);
  std::sort(order.begin(), order.end());
  std::fill(tree_.begin(), tree_.end(), 0U);
  next_position_ = 0;
  for (const auto& [position, hash] : order) {
    last_position_[hash] = next_position_;
    Mark(next_position_++, 1);
  }
}

void MissRatioCurve::ForgetLargestHash() {
  const uint64_t largest = *hashes_.rbegin();
  hashes_.erase(largest);
  const auto entry = last_position_.find(largest);
  Mark(entry->second, -1);
  last_position_.erase(entry);
  const double rate_before = rate_;
  threshold_ = largest - 1;
  rate_ = static_cast<double>(threshold_) * 0x1p-64;
  // What was counted at the higher rate stands for as many as before.
  for (double& count : distances_) count *= rate_ / rate_before;
  sampled_ *= rate_ / rate_before;
}

void MissRatioCurve::AddDistance(double distance_blocks, double weight) {
  const size_t bucket = BucketOf(static_cast<uint64_t>(std::min(distance_blocks, kDistanceMax)));
  if (distances_.size() <= bucket) distances_.resize(bucket + 1);
  distances_[bucket] += weight;
}

void MissRatioCurve::Access(uint64_t key, double shown_share) {
  const double weight = 1 / shown_share;
  accesses_ += weight;
  const uint64_t hash = MixBits(key);
  if (hash > threshold_) return;
  sampled_ += weight;
  if (next_position_ + 1 == tree_.size()) Renumber();
  const auto [entry, first] = last_position_.try_emplace(hash, next_position_);
  if (!first) {
    const double distance = static_cast<double>(DistinctSince(entry->second)) / rate_;
    AddDistance(std::floor(distance / shown_share), weight);
    Mark(entry->second, -1);
    entry->second = next_position_;
  }
  Mark(next_position_++, 1);
  if (!first) return;
  hashes_.insert(hash);
  if (hashes_.size() > samples_max_) ForgetLargestHash();
}

void MissRatioCurve::Fade(double accesses_max) {
  if (accesses_ <= accesses_max) return;
  const double kept = accesses_max / accesses_;
  accesses_ *= kept;
  sampled_ *= kept;
  for (double& count : distances_) count *= kept;
}

double MissRatioCurve::MissRatio(uint64_t blocks) const {
  if (accesses_ == 0) return 1;
  const double expected = accesses_ * rate_;
  // SHARDS-adj: when hot blocks were sampled more or less often than their share, the difference
  // counts as hits of the smallest distance.
  double hits = blocks > 0 ? expected - sampled_ : 0;
  for (size_t bucket = 0; bucket < distances_.size() && BucketLow(bucket) < blocks; ++bucket) {
    hits += distances_[bucket];
  }
  return std::clamp(1 - hits / expected, 0.0, 1.0);
}

std::vector<MissRatioCurve::Point> MissRatioCurve::Points(uint64_t blocks_min) const {
  std::vector<Point> points;
  if (accesses_ == 0) return points;
  const uint64_t all = distances_.empty() ? 0 : BucketLow(distances_.size());
  for (uint64_t blocks = std::max<uint64_t>(blocks_min, 1);; blocks *= 2) {
    points.push_back({.blocks = blocks, .miss_ratio = MissRatio(blocks)});
    if (blocks >= all || blocks >= 1ULL << 62) return points;
  }
}

}  // namespace ebb::env
