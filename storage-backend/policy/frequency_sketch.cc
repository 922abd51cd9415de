#include "storage-backend/policy/frequency_sketch.h"

#include <algorithm>
#include <bit>

#include "storage-backend/policy/key_hash.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kWithoutTopBits = 0x7777777777777777;

}  // namespace

void FrequencySketch::Reset(uint32_t slot_count) {
  words_ = std::vector<uint64_t>(slot_count == 0 ? 0 : std::bit_ceil(slot_count));
  hand_ = 0;
  additions_ = 0;
}

FrequencySketch::Place FrequencySketch::PlaceOf(uint64_t hash, int row) const {
  const uint64_t mixed = HashKey(hash + static_cast<uint64_t>(row));
  return {.word = static_cast<size_t>(mixed & (words_.size() - 1)),
          .shift = 4 * (4 * row + static_cast<int>(mixed >> 62))};
}

void FrequencySketch::Add(uint64_t key) {
  if (words_.empty()) return;
  const uint64_t hash = HashKey(key);
  for (int row = 0; row < kRows; ++row) {
    const Place place = PlaceOf(hash, row);
    if (CounterAt(place) < kCountMax) words_[place.word] += uint64_t{1} << place.shift;
  }
  if (++additions_ % kAdditionsAHalving != 0) return;
  words_[hand_] = words_[hand_] >> 1 & kWithoutTopBits;
  hand_ = (hand_ + 1) % words_.size();
}

uint32_t FrequencySketch::Count(uint64_t key) const {
  if (words_.empty()) return 0;
  const uint64_t hash = HashKey(key);
  uint64_t least = kCountMax;
  for (int row = 0; row < kRows; ++row) {
    least = std::min(least, CounterAt(PlaceOf(hash, row)));
  }
  return static_cast<uint32_t>(least);
}

}  // namespace ebb::storage
