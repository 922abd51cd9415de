// VolumeQueue is the RequestQueue of a VolumeImpl: it runs a request's plan, I/O and completion
// apart from each other.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "storage-backend/volume/request_queue.h"
#include "storage-backend/volume/volume_impl.h"
#include "storage-backend/volume/waiting_room.h"

namespace ebb::storage {

class VolumeQueue final : public RequestQueue {
 public:
  VolumeQueue(VolumeImpl& volume, size_t depth);
  ~VolumeQueue() override;

  void Submit(Request* request) override;
  void Reap(size_t min_completions, std::vector<Request*>& done) override;
  size_t in_flight() const override { return in_flight_; }
  size_t depth() const override { return depth_; }

 private:
  // A read between its plan and its completion.
  struct PendingRead {
    Request* request = nullptr;
    std::unique_ptr<VolumeImpl::ReadScratch> scratch;
    uint64_t begin_ns = 0;
    size_t transfers_left = 0;
  };

  // A write that the throttle holds back.
  struct HeldWrite {
    Request* request = nullptr;
    uint64_t begin_ns = 0;
    uint64_t until_ns = 0;
  };

  void SubmitWrite(Request* request);
  // Does a write in this thread when that needs no waiting, else in another.
  void WriteOrWait(Request* request, uint64_t begin_ns);
  void ReleaseHeldWrites();
  void SubmitRead(Request* request);
  // Starts the transfers of a read whose blocks are all on the cache device or in memory.
  void StartTransfers(PendingRead&& read);
  void TransferDone(PendingRead& read);
  // What is left of a read once its data is there, or `status` says why not.
  void FinishRead(PendingRead& read, absl::Status status, bool execute_runs);
  void Wait(Request* request);
  // Takes completions in; waits for one at most `wait_ns`.
  void Poll(uint64_t wait_ns);

  VolumeImpl& volume_;
  const size_t depth_;
  size_t in_flight_ = 0;
  std::unique_ptr<IoQueue> transfers_;
  std::vector<std::unique_ptr<PendingRead>> reads_;  // all of them
  std::vector<PendingRead*> free_reads_;
  std::vector<Request*> done_;
  std::vector<void*> finished_;  // scratch of Poll
  std::deque<HeldWrite> held_;   // by until_ns: the throttle has one schedule
  WaitingRoom waiting_;
};

}  // namespace ebb::storage
