#include "storage-backend/policy/slot_queue.h"

#include "base/check.h"

namespace ebb::storage {

void SlotQueue::PushFront(uint32_t slot) {
  links_[slot] = {.previous = kNoSlot, .next = front_};
  if (front_ != kNoSlot) links_[front_].previous = slot;
  front_ = slot;
  if (back_ == kNoSlot) back_ = slot;
  ++size_;
}

void SlotQueue::Remove(uint32_t slot) {
  EBB_CHECK(size_ > 0);
  const Link link = links_[slot];
  if (link.previous != kNoSlot) {
    links_[link.previous].next = link.next;
  } else {
    EBB_CHECK(front_ == slot);
    front_ = link.next;
  }
  if (link.next != kNoSlot) {
    links_[link.next].previous = link.previous;
  } else {
    EBB_CHECK(back_ == slot);
    back_ = link.previous;
  }
  --size_;
}

}  // namespace ebb::storage
