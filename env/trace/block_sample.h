// BlockSample counts distinct keys and how often they come back, exactly while they are few and by
// spatial sampling beyond that, so that its memory has a bound.
//
// A key is kept when its hash lies below a threshold; when too many are kept, the threshold is
// halved and what lies above it is forgotten. What is kept has been seen in full: a place sampled
// is sampled in every access. With n keys kept the relative error of a count is about 1/sqrt(n).
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"

namespace ebb::env {

// A hash in which every bit depends on every bit of the key.
inline uint64_t MixBits(uint64_t key) {
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
  return key ^ (key >> 31);
}

// The key of a block of a device: equal places of different devices are different keys.
inline uint64_t PlaceKey(uint64_t device, uint64_t block) {
  return MixBits(block + MixBits(device) * 0x9e3779b97f4a7c15);
}

class BlockSample {
 public:
  explicit BlockSample(size_t kept_max) : kept_max_(kept_max) {}

  void Add(uint64_t key) {
    const uint64_t hash = MixBits(key + 0x9e3779b97f4a7c15);
    if (hash > threshold_) return;
    ++kept_[hash];
    if (kept_.size() > kept_max_) Thin();
  }

  // Distinct keys, and Adds; exact while exact() holds.
  double distinct() const { return static_cast<double>(kept_.size()) * scale_; }
  double added() const {
    double sum = 0;
    for (const auto& [hash, count] : kept_) sum += static_cast<double>(count);
    return sum * scale_;
  }
  // The share of Adds whose key had come before; 0 without any.
  double repeat_share() const {
    const double all = added();
    return all == 0 ? 0 : 1 - distinct() / all;
  }
  bool exact() const { return scale_ == 1; }

 private:
  void Thin() {
    threshold_ /= 2;
    scale_ *= 2;
    absl::erase_if(kept_, [this](const auto& entry) { return entry.first > threshold_; });
  }

  const size_t kept_max_;
  uint64_t threshold_ = ~uint64_t{0};
  double scale_ = 1;
  absl::flat_hash_map<uint64_t, uint64_t> kept_;
};

}  // namespace ebb::env
