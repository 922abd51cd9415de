// VolumeQueue is the RequestQueue of a VolumeImpl: it runs a request's plan, I/O and completion
// apart from each other.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "storage-backend/volume/polled_queue.h"
#include "storage-backend/volume/volume_impl.h"

namespace ebb::storage {

class VolumeQueue final : public PolledQueue {
 public:
  VolumeQueue(VolumeImpl& volume, size_t depth);
  ~VolumeQueue() override;

  void Submit(Request* request) override;

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
  void Poll(uint64_t wait_ns) override;

  VolumeImpl& volume_;
  std::unique_ptr<IoQueue> transfers_;
  std::vector<std::unique_ptr<PendingRead>> reads_;  // all of them
  std::vector<PendingRead*> free_reads_;
  std::deque<HeldWrite> held_;  // by until_ns: the throttle has one schedule
};

}  // namespace ebb::storage
