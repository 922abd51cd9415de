// FrequencySketch estimates how often a key was seen lately, in 8 to 16 bytes a slot of a cache.
//
// A count-min sketch of 4-bit counters, four for each key (Einziger et al., TinyLFU, 2017): a key's
// count is the least of its counters, so others that share some of them rarely make it too high.
// Counters are halved one after the other as keys are added, each about once in 8 to 16 additions
// for each slot: what was popular once is forgotten, and no addition pays for a sweep. Pure; the
// caller serialises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ebb::storage {

class FrequencySketch {
 public:
  static constexpr uint32_t kCountMax = 15;

  // For a cache of `slot_count`; forgets everything. 0 gives the memory back.
  void Reset(uint32_t slot_count);
  void Add(uint64_t key);
  uint32_t Count(uint64_t key) const;

 private:
  static constexpr int kRows = 4;
  static constexpr uint64_t kAdditionsAHalving = 8;

  struct Place {
    size_t word;
    int shift;
  };
  Place PlaceOf(uint64_t hash, int row) const;
  uint64_t CounterAt(const Place& place) const {
    return words_[place.word] >> place.shift & kCountMax;
  }

  std::vector<uint64_t> words_;  // of 16 counters, four for each row
  size_t hand_ = 0;              // the next word to be halved
  uint64_t additions_ = 0;
};

}  // namespace ebb::storage
