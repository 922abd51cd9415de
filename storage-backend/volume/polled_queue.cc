#include "storage-backend/volume/polled_queue.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"

namespace ebb::storage {
namespace {

// Misses and flushes at once: enough to keep seven disks busy, few enough to cost nothing.
constexpr size_t kThreadsMax = 8;
constexpr uint64_t kPollNs = 100 * kNsPerMs;

}  // namespace

PolledQueue::PolledQueue(size_t depth) : depth_(depth), waiting_(std::min(depth, kThreadsMax)) {
  EBB_CHECK(depth > 0);
}

void PolledQueue::Begin() {
  EBB_CHECK(in_flight_ < depth_);
  ++in_flight_;
}

void PolledQueue::Reap(size_t min_completions, std::vector<Request*>& done) {
  EBB_CHECK(min_completions <= in_flight_);
  if (done_.size() < in_flight_) Poll(0);
  while (done_.size() < min_completions) Poll(kPollNs);
  in_flight_ -= done_.size();
  done.insert(done.end(), done_.begin(), done_.end());
  done_.clear();
}

void PolledQueue::FinishAll() {
  std::vector<Request*> rest;
  Reap(in_flight_, rest);
}

void PolledQueue::Wait(Volume& volume, Request* request) {
  waiting_.Run([&volume, request]() -> void* {
    ExecuteBlocking(volume, request);
    return request;
  });
}

void PolledQueue::CollectWaiting(uint64_t wait_ns) {
  finished_.clear();
  waiting_.Collect(wait_ns, finished_);
  for (void* request : finished_) Complete(static_cast<Request*>(request));
}

}  // namespace ebb::storage
