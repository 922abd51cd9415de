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

  // A write that the throttle holds back, or that waits for room in the log.
  struct HeldWrite {
    Request* request = nullptr;
    uint64_t begin_ns = 0;
    uint64_t until_ns = 0;
    uint64_t written_bytes = 0;
  };

  void SubmitWrite(Request* request);
  // False when there is no room for all of it yet, else the request is complete.
  bool TryWrite(HeldWrite& write);
  void CompleteWrite(const HeldWrite& write, absl::Status status);
  // Those that are due, as far as there is room.
  void ReleaseHeldWrites();
  // Waits, at most `wait_ns`, for what the first held write needs.
  void WaitForHeldWrite(uint64_t wait_ns);
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
  std::deque<HeldWrite> held_;  // in their order; by until_ns: the throttle has one schedule
};

}  // namespace ebb::storage
