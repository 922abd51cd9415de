#include "storage-backend/volume/striped_queue.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"

namespace ebb::storage {
namespace {

constexpr size_t kThreadsMax = 8;
// Several groups can only be looked at in turn; a wait for one of them is this long at most.
constexpr uint64_t kLookNs = 50 * kNsPerUs;

}  // namespace

StripedQueue::StripedQueue(StripedVolume& volume, size_t depth)
    : volume_(volume), depth_(depth), waiting_(std::min(depth, kThreadsMax)) {
  EBB_CHECK(depth > 0);
  for (const auto& group : volume_.groups_) groups_.push_back(group->MakeQueue(depth));
}

StripedQueue::~StripedQueue() {
  std::vector<Request*> rest;
  Reap(in_flight_, rest);
}

bool StripedQueue::IsInOneStripe(const Request& request) const {
  if (request.kind == Request::Kind::kFlush || request.bytes == 0 ||
      !volume_.CheckRange(request.offset, request.bytes).ok()) {
    return false;
  }
  return request.offset % StripeLayout::kStripeBytes + request.bytes <= StripeLayout::kStripeBytes;
}

void StripedQueue::Submit(Request* request) {
  EBB_CHECK(in_flight_ < depth_);
  ++in_flight_;
  if (!IsInOneStripe(*request)) {
    waiting_.Run([this, request]() -> void* {
      ExecuteBlocking(volume_, request);
      return request;
    });
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
  done_.push_back(part.whole);
  free_parts_.push_back(&part);
}

void StripedQueue::Poll(uint64_t wait_ns) {
  size_t busy_groups = 0;
  for (const auto& group : groups_) busy_groups += group->in_flight() > 0 ? 1 : 0;
  const bool one_to_wait_for = busy_groups == 1 && waiting_.jobs() == 0;
  reaped_.clear();
  for (const auto& group : groups_) {
    if (group->in_flight() > 0) group->Reap(one_to_wait_for && wait_ns > 0 ? 1 : 0, reaped_);
  }
  for (Request* request : reaped_) Finish(*static_cast<Part*>(request->context));
  if (one_to_wait_for || !reaped_.empty()) wait_ns = 0;
  if (waiting_.jobs() == 0) {
    if (wait_ns > 0) volume_.clock_.SleepUntilNs(volume_.clock_.MonotonicNs() + kLookNs);
    return;
  }
  finished_.clear();
  waiting_.Collect(busy_groups > 0 ? std::min(wait_ns, kLookNs) : wait_ns, finished_);
  for (void* request : finished_) done_.push_back(static_cast<Request*>(request));
}

void StripedQueue::Reap(size_t min_completions, std::vector<Request*>& done) {
  EBB_CHECK(min_completions <= in_flight_);
  if (done_.size() < in_flight_) Poll(0);
  while (done_.size() < min_completions) Poll(100 * kNsPerMs);
  in_flight_ -= done_.size();
  done.insert(done.end(), done_.begin(), done_.end());
  done_.clear();
}

}  // namespace ebb::storage
