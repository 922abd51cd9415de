// ReadAdmissionPolicy decides which blocks that were just read from a device enter the read cache.
//
// What the cache device served is asked for once more at least, whatever the kind: the next read of
// it costs 100 us and not 10 ms, while keeping it costs a copy on the way of this one.
//
// "Always" admits the rest. "Second hit" admits a block only when it was asked for before, within
// about as many misses as the cache has slots: what is read once never displaces what is read
// often. "Frequency" asks as well whether it was asked for more often lately than the block that
// would leave (TinyLFU), so that what is read now and then does not displace what is read all the
// time. Pure; the caller serialises.
#pragma once

#include <cstdint>
#include <optional>

#include "storage-backend/knobs/knobs.h"
#include "storage-backend/policy/frequency_sketch.h"
#include "storage-backend/policy/ghost_table.h"

namespace ebb::storage {

class ReadAdmissionPolicy {
 public:
  // What was seen until now is forgotten when either changes something.
  void Resize(uint32_t slot_count);  // of the cache
  void SetKind(ReadAdmission kind);

  // The block was found in the cache.
  void OnHit(uint64_t key) {
    if (kind_ == ReadAdmission::kFrequency) counts_.Add(key);
  }
  // Whether Admit looks at the victim.
  bool ComparesVictims() const { return kind_ == ReadAdmission::kFrequency; }
  enum class ReadFrom : uint8_t { kCapacity, kCacheDevice };
  // Whether `key`, which missed, should enter; asking counts as having seen it. `victim` would have
  // to leave; nothing when there is room.
  bool Admit(uint64_t key, ReadFrom from, std::optional<uint64_t> victim);

 private:
  void Forget();

  ReadAdmission kind_ = ReadAdmission::kAlways;
  uint32_t slot_count_ = 0;
  bool SeenBefore(uint64_t key);

  GhostTable seen_;
  FrequencySketch counts_;  // empty where the present kind has no use for it
};

}  // namespace ebb::storage
