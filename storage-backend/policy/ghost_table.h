// GhostTable remembers which keys were seen lately, in bounded memory: 8 bytes a remembered key.
//
// A key counts as remembered for the next `capacity` additions of other keys. It is kept as a
// 32-bit fingerprint in a bucket of four, so about one key in 2^30 is taken for another (harmless:
// the answer is a hint), and one may be pushed out early by its bucket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ebb::storage {

class GhostTable {
 public:
  // Forgets everything.
  void Reset(uint32_t capacity);
  void Add(uint64_t key);
  bool Contains(uint64_t key) const;
  // Contains, and forgets the key when it was there.
  bool Take(uint64_t key);

 private:
  struct Entry {
    uint32_t fingerprint = 0;  // 0: empty
    uint32_t added_at = 0;     // additions_ when it was added; wraps, as all its arithmetic does
  };
  using Bucket = std::array<Entry, 4>;

  bool IsFresh(const Entry& entry) const {
    return entry.fingerprint != 0 && additions_ - entry.added_at < capacity_;
  }
  size_t BucketOf(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  static uint32_t Fingerprint(uint64_t hash);

  std::vector<Bucket> buckets_;
  uint32_t capacity_ = 0;
  uint32_t additions_ = 0;
};

}  // namespace ebb::storage
