// EvictionPolicy orders the slots of a cache: which content leaves when room is needed.
//
// The cache owns the slots (numbered from 0) and their content; the policy only sees keys and slot
// numbers, so the twin can drive it without payload. A slot is known to the policy between Insert
// and Erase or Evict. Pure: no clock, no I/O; the caller serialises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ebb::storage {

inline constexpr uint32_t kNoSlot = 0xffffffff;

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // Slots [0, slot_count) may be used from now on, and that many is what the cache can hold.
  // Shrinking needs that no slot at or above `slot_count` is known.
  virtual void Resize(uint32_t slot_count) = 0;
  // `slot` now holds `key`.
  virtual void Insert(uint32_t slot, uint64_t key) = 0;
  // The content of `slot` was used again.
  virtual void Touch(uint32_t slot) = 0;
  // The content of `slot` is gone for a reason of the cache's own.
  virtual void Erase(uint32_t slot) = 0;
  // The slot whose content should leave first; kNoSlot when none is known. What has to be settled
  // to know that is settled.
  virtual uint32_t Victim() = 0;
  // Forgets and returns the victim.
  virtual uint32_t Evict() = 0;
  virtual size_t size() const = 0;
};

std::unique_ptr<EvictionPolicy> MakeLruPolicy();
std::unique_ptr<EvictionPolicy> MakeS3FifoPolicy();

}  // namespace ebb::storage
