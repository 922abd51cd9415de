#include "storage-backend/device/sync_queue.h"

#include <utility>

#include "base/check.h"

namespace ebb::storage {

void ExecuteBlocking(Device& device, Io* io) {
  switch (io->kind) {
    case Io::Kind::kRead:
      io->status = device.Read(io->offset, {io->data, io->bytes});
      return;
    case Io::Kind::kWrite:
      io->status = device.Write(io->offset, {io->data, io->bytes});
      return;
    case Io::Kind::kFlush:
      io->status = device.Flush();
      return;
  }
  EBB_CHECK(false);
}

void SyncQueue::Submit(Io* io) {
  EBB_CHECK(done_.size() < depth_);
  ExecuteBlocking(device_, io);
  done_.push_back(io);
}

std::vector<Io*> SyncQueue::Reap(size_t min_completions) {
  EBB_CHECK(min_completions <= done_.size());
  return std::exchange(done_, {});
}

}  // namespace ebb::storage
