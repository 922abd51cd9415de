#include "storage-backend/policy/ghost_table.h"

#include <algorithm>
#include <bit>

#include "storage-backend/policy/key_hash.h"

namespace ebb::storage {

void GhostTable::Reset(uint32_t capacity) {
  capacity_ = capacity;
  additions_ = 0;
  buckets_.assign(capacity == 0 ? 0 : std::bit_ceil(capacity / 2 + 1), Bucket{});
}

uint32_t GhostTable::Fingerprint(uint64_t hash) {
  const auto fingerprint = static_cast<uint32_t>(hash >> 32);
  return fingerprint == 0 ? 1 : fingerprint;
}

void GhostTable::Add(uint64_t key) {
  if (buckets_.empty()) return;
  const uint64_t hash = HashKey(key);
  const uint32_t fingerprint = Fingerprint(hash);
  ++additions_;
  Bucket& bucket = buckets_[BucketOf(hash)];
  // The key's own entry, else a stale one, else the oldest.
  Entry* place = nullptr;
  for (Entry& entry : bucket) {
    if (entry.fingerprint == fingerprint) {
      place = &entry;
      break;
    }
    const auto age = [&](const Entry& e) {
      return IsFresh(e) ? additions_ - e.added_at : capacity_;
    };
    if (place == nullptr || age(entry) > age(*place)) place = &entry;
  }
  *place = {.fingerprint = fingerprint, .added_at = additions_};
}

bool GhostTable::Contains(uint64_t key) const {
  if (buckets_.empty()) return false;
  const uint64_t hash = HashKey(key);
  const Bucket& bucket = buckets_[BucketOf(hash)];
  return std::any_of(bucket.begin(), bucket.end(), [&](const Entry& entry) {
    return entry.fingerprint == Fingerprint(hash) && IsFresh(entry);
  });
}

bool GhostTable::Take(uint64_t key) {
  if (buckets_.empty()) return false;
  const uint64_t hash = HashKey(key);
  for (Entry& entry : buckets_[BucketOf(hash)]) {
    if (entry.fingerprint == Fingerprint(hash) && IsFresh(entry)) {
      entry = Entry{};
      return true;
    }
  }
  return false;
}

}  // namespace ebb::storage
