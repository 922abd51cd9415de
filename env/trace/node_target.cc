#include "env/trace/node_target.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sys/prctl.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/units.h"
#include "storage-backend/control/node_server.h"

namespace ebb::env {
namespace {

using trace::TraceOp;

// The node counts a request's bytes with 32 bits; whole blocks below that.
constexpr uint64_t kNoDataBytesMax = uint64_t{1} << 31;
// A wait is cut into pieces, so that a deadline may be as far away as one likes.
constexpr uint64_t kWaitNs = kNsPerS;

}  // namespace

NodeTarget::NodeTarget(storage::NodeServer& node, int threads) : node_(node) {
  EBB_CHECK(threads > 0);
  // The replayer's waits are short and many: the kernel's default slack of 50 us would show.
  prctl(PR_SET_TIMERSLACK, 1'000UL);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

NodeTarget::~NodeTarget() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

uint64_t NodeTarget::size_bytes() const { return node_.volume_bytes(); }

uint64_t NodeTarget::RequestBytesMax(TraceOp op) const {
  return op == TraceOp::kRead || op == TraceOp::kWrite ? trace::kTraceDataBytesMax
                                                       : kNoDataBytesMax;
}

absl::Status NodeTarget::Submit(TargetRequest* request) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(request);
  }
  work_.notify_one();
  return absl::OkStatus();
}

absl::Status NodeTarget::Wait(uint64_t deadline_ns, std::vector<TargetRequest*>* done) {
  std::unique_lock lock(mutex_);
  while (done_.empty()) {
    const uint64_t now_ns = RealClock().MonotonicNs();
    if (now_ns >= deadline_ns) break;
    answer_.wait_for(lock, std::chrono::nanoseconds(std::min(deadline_ns - now_ns, kWaitNs)));
  }
  done->insert(done->end(), done_.begin(), done_.end());
  done_.clear();
  return absl::OkStatus();
}

void NodeTarget::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    TargetRequest* request = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    request->status = Execute(*request);
    request->done_ns = RealClock().MonotonicNs();
    lock.lock();
    done_.push_back(request);
    answer_.notify_one();
  }
}

absl::Status NodeTarget::Execute(const TargetRequest& request) {
  switch (request.op) {
    case TraceOp::kRead:
      return node_.Read(request.offset, {request.data, request.bytes});
    case TraceOp::kWrite:
      return node_.Write(request.offset, {request.data, request.bytes}, request.fua);
    case TraceOp::kFlush:
      return node_.Flush();
    case TraceOp::kTrim:
      return node_.Trim(request.offset, request.bytes, request.fua);
    case TraceOp::kWriteZeroes:
      return node_.WriteZeroes(request.offset, request.bytes, request.fua);
  }
  EBB_CHECK(false);
  return absl::OkStatus();
}

}  // namespace ebb::env
