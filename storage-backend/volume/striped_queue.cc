#include "storage-backend/volume/striped_queue.h"

#include <algorithm>

#include "base/units.h"

namespace ebb::storage {

StripedQueue::StripedQueue(StripedVolume& volume, size_t depth)
    : PolledQueue(depth), volume_(volume) {
  for (const auto& group : volume_.groups_) groups_.push_back(group->MakeQueue(depth));
}

StripedQueue::~StripedQueue() { FinishAll(); }

bool StripedQueue::IsInOneStripe(const Request& request) const {
  if (request.kind == Request::Kind::kFlush || request.bytes == 0 ||
      !volume_.CheckRange(request.offset, request.bytes).ok()) {
    return false;
  }
  return request.offset % StripeLayout::kStripeBytes + request.bytes <= StripeLayout::kStripeBytes;
}

void StripedQueue::Submit(Request* request) {
  Begin();
  if (!IsInOneStripe(*request)) {
    Wait(volume_, request);
    return;
  }
  if (free_parts_.empty()) {
    parts_.push_back(std::make_unique<Part>());
    free_parts_.push_back(parts_.back().get());
  }
  Part* const part = free_parts_.back();
  free_parts_.pop_back();
  part->request = *request;
  part->request.offset = volume_.layout_.OffsetInGroup(request->offset);
  part->request.context = part;
  part->whole = request;
  part->begin_ns = volume_.clock_.MonotonicNs();
  groups_[volume_.layout_.GroupOf(request->offset)]->Submit(&part->request);
}

void StripedQueue::Finish(Part& part) {
  Op op = Op::kTrim;
  if (part.request.kind == Request::Kind::kRead) op = Op::kRead;
  if (part.request.kind == Request::Kind::kWrite) op = Op::kWrite;
  part.whole->status =
      volume_.Finish(op, part.request.bytes, part.begin_ns, std::move(part.request.status));
  Complete(part.whole);
  free_parts_.push_back(&part);
}

void StripedQueue::Poll(uint64_t wait_ns) {
  size_t busy_groups = 0;
  for (const auto& group : groups_) busy_groups += group->in_flight() > 0 ? 1 : 0;
  const bool one_to_wait_for = busy_groups == 1 && waiting() == 0;
  reaped_.clear();
  for (const auto& group : groups_) {
    if (group->in_flight() > 0) group->Reap(one_to_wait_for && wait_ns > 0 ? 1 : 0, reaped_);
  }
  for (Request* request : reaped_) Finish(*static_cast<Part*>(request->context));
  if (one_to_wait_for || !reaped_.empty()) wait_ns = 0;
  if (waiting() == 0) {
    if (wait_ns > 0) volume_.clock_.SleepUntilNs(volume_.clock_.MonotonicNs() + kLookNs);
    return;
  }
  CollectWaiting(busy_groups > 0 ? std::min(wait_ns, kLookNs) : wait_ns);
}

}  // namespace ebb::storage
