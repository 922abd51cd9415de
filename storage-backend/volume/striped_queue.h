// StripedQueue is the RequestQueue of a StripedVolume: a request inside one stripe goes through its
// group's own queue, one that concerns several groups waits on a thread.
#pragma once

#include <memory>
#include <vector>

#include "storage-backend/volume/request_queue.h"
#include "storage-backend/volume/striped_volume.h"
#include "storage-backend/volume/waiting_room.h"

namespace ebb::storage {

class StripedQueue final : public RequestQueue {
 public:
  StripedQueue(StripedVolume& volume, size_t depth);
  ~StripedQueue() override;

  void Submit(Request* request) override;
  void Reap(size_t min_completions, std::vector<Request*>& done) override;
  size_t in_flight() const override { return in_flight_; }
  size_t depth() const override { return depth_; }

 private:
  // A request as its group sees it.
  struct Part {
    Request request;
    Request* whole = nullptr;
    uint64_t begin_ns = 0;
  };

  bool IsInOneStripe(const Request& request) const;
  void Finish(Part& part);
  // Takes completions in; waits for one at most `wait_ns`.
  void Poll(uint64_t wait_ns);

  StripedVolume& volume_;
  const size_t depth_;
  size_t in_flight_ = 0;
  std::vector<std::unique_ptr<RequestQueue>> groups_;
  std::vector<std::unique_ptr<Part>> parts_;  // all of them
  std::vector<Part*> free_parts_;
  std::vector<Request*> done_;
  std::vector<Request*> reaped_;  // scratch of Poll
  std::vector<void*> finished_;   // likewise
  WaitingRoom waiting_;
};

}  // namespace ebb::storage
