// StripedQueue is the RequestQueue of a StripedVolume: a request inside one stripe goes through its
// group's own queue, one that concerns several groups waits on a thread.
#pragma once

#include <memory>
#include <vector>

#include "storage-backend/volume/polled_queue.h"
#include "storage-backend/volume/striped_volume.h"

namespace ebb::storage {

class StripedQueue final : public PolledQueue {
 public:
  StripedQueue(StripedVolume& volume, size_t depth);
  ~StripedQueue() override;

  void Submit(Request* request) override;

 private:
  // A request as its group sees it.
  struct Part {
    Request request;
    Request* whole = nullptr;
    uint64_t begin_ns = 0;
  };

  bool IsInOneStripe(const Request& request) const;
  void Finish(Part& part);
  void Poll(uint64_t wait_ns) override;

  StripedVolume& volume_;
  std::vector<std::unique_ptr<RequestQueue>> groups_;
  std::vector<std::unique_ptr<Part>> parts_;  // all of them
  std::vector<Part*> free_parts_;
  std::vector<Request*> reaped_;  // scratch of Poll
};

}  // namespace ebb::storage
