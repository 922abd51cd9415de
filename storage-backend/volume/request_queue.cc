#include "storage-backend/volume/request_queue.h"

#include <span>

#include "base/check.h"
#include "storage-backend/volume/volume.h"

namespace ebb::storage {
namespace {

class BlockingQueue final : public RequestQueue {
 public:
  BlockingQueue(Volume& volume, size_t depth) : volume_(volume), depth_(depth) {}

  void Submit(Request* request) override {
    EBB_CHECK(done_.size() < depth_);
    ExecuteBlocking(volume_, request);
    done_.push_back(request);
  }
  void Reap(size_t min_completions, std::vector<Request*>& done) override {
    EBB_CHECK(min_completions <= done_.size());
    done.insert(done.end(), done_.begin(), done_.end());
    done_.clear();
  }
  size_t in_flight() const override { return done_.size(); }
  size_t depth() const override { return depth_; }

 private:
  Volume& volume_;
  const size_t depth_;
  std::vector<Request*> done_;
};

}  // namespace

void ExecuteBlocking(Volume& volume, Request* request) {
  const std::span<std::byte> data(request->data, request->bytes);
  switch (request->kind) {
    case Request::Kind::kRead:
      request->status = volume.Read(request->offset, data);
      return;
    case Request::Kind::kWrite:
      request->status = volume.Write(request->offset, data, request->fua);
      return;
    case Request::Kind::kWriteZeroes:
      request->status = volume.WriteZeroes(request->offset, request->bytes, request->fua);
      return;
    case Request::Kind::kTrim:
      request->status = volume.Trim(request->offset, request->bytes, request->fua);
      return;
    case Request::Kind::kFlush:
      request->status = volume.Flush();
      return;
  }
  EBB_CHECK(false);
}

std::unique_ptr<RequestQueue> MakeBlockingQueue(Volume& volume, size_t depth) {
  return std::make_unique<BlockingQueue>(volume, depth);
}

}  // namespace ebb::storage
