// ReadAdmissionPolicy decides which blocks that were just read from a disk enter the read cache.
//
// "Second hit" admits a block only when it was asked for before, within about as many misses as the
// cache has slots: what is read once never displaces what is read often. "Frequency" asks as well
// whether it was asked for more often lately than the block that would leave (TinyLFU), so that
// what is read now and then does not displace what is read all the time. Pure; the caller
// serialises.
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
  // Whether `key`, which missed, should enter; asking counts as having seen it. `victim` would have
  // to leave; nothing when there is room.
  bool Admit(uint64_t key, std::optional<uint64_t> victim);

 private:
  void Forget();

  ReadAdmission kind_ = ReadAdmission::kAlways;
  uint32_t slot_count_ = 0;
  // Empty where the present kind has no use for them.
  GhostTable seen_;
  FrequencySketch counts_;
};

}  // namespace ebb::storage
