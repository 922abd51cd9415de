// ReadAdmissionPolicy decides which blocks that were just read from a disk enter the read cache.
//
// "Second hit" admits a block only when it was asked for before, within about as many misses as the
// cache has slots: what is read once never displaces what is read often. Pure; the caller
// serialises.
#pragma once

#include <cstdint>

#include "storage-backend/policy/ghost_table.h"

namespace ebb::storage {

class ReadAdmissionPolicy {
 public:
  // `slot_count`: slots of the cache, which is the length of the memory of misses.
  void Resize(uint32_t slot_count) { seen_.Reset(slot_count); }
  // Whether `key`, which missed, should enter. Asking counts as having seen it.
  bool Admit(uint64_t key, bool second_hit_only);

 private:
  GhostTable seen_;
};

}  // namespace ebb::storage
