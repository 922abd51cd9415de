#include "storage-backend/policy/s3_fifo.h"

namespace ebb::storage {

void S3FifoPolicy::Resize(uint32_t slot_count) {
  links_.resize(slot_count);
  slots_.resize(slot_count);
  ghosts_.Reset(slot_count - slot_count / 10);
}

void S3FifoPolicy::Insert(uint32_t slot, uint64_t key) {
  const bool in_main = ghosts_.Take(key);
  slots_[slot] = {.key = key, .uses = 0, .in_main = in_main};
  (in_main ? main_ : small_).PushFront(slot);
}

void S3FifoPolicy::Touch(uint32_t slot) {
  uint8_t& uses = slots_[slot].uses;
  if (uses < kUsesMax) ++uses;
}

void S3FifoPolicy::Erase(uint32_t slot) { (slots_[slot].in_main ? main_ : small_).Remove(slot); }

uint32_t S3FifoPolicy::Victim() {
  // Each turn finds the victim, moves a slot to main or lowers a count, so the loop ends.
  while (size() > 0) {
    const bool from_small = small_.size() > slots_.size() / 10 || main_.size() == 0;
    const uint32_t slot = from_small ? VictimOfSmall() : VictimOfMain();
    if (slot != kNoSlot) return slot;
  }
  return kNoSlot;
}

uint32_t S3FifoPolicy::VictimOfSmall() {
  const uint32_t slot = small_.back();
  if (slot == kNoSlot) return kNoSlot;
  SlotState& state = slots_[slot];
  if (state.uses <= 1) return slot;
  small_.Remove(slot);
  state.uses = 0;
  state.in_main = true;
  main_.PushFront(slot);
  return kNoSlot;
}

uint32_t S3FifoPolicy::VictimOfMain() {
  const uint32_t slot = main_.back();
  if (slot == kNoSlot) return kNoSlot;
  SlotState& state = slots_[slot];
  if (state.uses == 0) return slot;
  --state.uses;
  main_.Remove(slot);
  main_.PushFront(slot);
  return kNoSlot;
}

uint32_t S3FifoPolicy::Evict() {
  const uint32_t slot = Victim();
  if (slot == kNoSlot) return kNoSlot;
  if (!slots_[slot].in_main) ghosts_.Add(slots_[slot].key);
  Erase(slot);
  return slot;
}

std::unique_ptr<EvictionPolicy> MakeS3FifoPolicy() { return std::make_unique<S3FifoPolicy>(); }

}  // namespace ebb::storage
