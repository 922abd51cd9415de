// SyncQueue gives any Device an IoQueue: each transfer is done inside Submit, on the caller's
// thread.
//
// For devices that answer at once (memory) and as the last resort of UringDevice where the kernel
// refuses io_uring. Not thread-safe, as every IoQueue; the device outlives it.
#pragma once

#include <cstddef>
#include <vector>

#include "storage-backend/device/device.h"

namespace ebb::storage {

// Carries out `io` with the device's blocking verbs and sets its status.
void ExecuteBlocking(Device& device, Io* io);

class SyncQueue final : public IoQueue {
 public:
  SyncQueue(Device& device, size_t depth) : device_(device), depth_(depth) {}

  void Submit(Io* io) override;
  std::vector<Io*> Reap(size_t min_completions) override;
  size_t in_flight() const override { return done_.size(); }
  size_t depth() const override { return depth_; }

 private:
  Device& device_;
  size_t depth_;
  std::vector<Io*> done_;
};

}  // namespace ebb::storage
