// PolledQueue is what the asynchronous queues of volumes have in common: counting what is in
// flight, handing back what is done, and a few threads for requests that have to wait.
//
// A queue of its own kind says in Submit how a request starts, and in Poll how completions come in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "storage-backend/volume/request_queue.h"
#include "storage-backend/volume/waiting_room.h"

namespace ebb::storage {

class PolledQueue : public RequestQueue {
 public:
  explicit PolledQueue(size_t depth);

  void Reap(size_t min_completions, std::vector<Request*>& done) final;
  size_t in_flight() const final { return in_flight_; }
  size_t depth() const final { return depth_; }

 protected:
  // While several places must be looked at in turn, a wait for one of them is this long at most.
  static constexpr uint64_t kLookNs = 50'000;

  // Takes completions in; waits for one at most `wait_ns`.
  virtual void Poll(uint64_t wait_ns) = 0;

  // Counts a request that Submit was given.
  void Begin();
  void Complete(Request* request) { done_.push_back(request); }
  bool has_done() const { return !done_.empty(); }
  // For the destructor of the queue that implements Poll.
  void FinishAll();

  // Does `request` with the volume's blocking verbs, on a thread.
  void Wait(Volume& volume, Request* request);
  // `job` completes the request that it returns.
  void Wait(std::function<void*()> job) { waiting_.Run(std::move(job)); }
  size_t waiting() const { return waiting_.jobs(); }
  // Takes in what such threads have completed; waits for one at most `wait_ns`.
  void CollectWaiting(uint64_t wait_ns);

 private:
  const size_t depth_;
  size_t in_flight_ = 0;
  std::vector<Request*> done_;
  std::vector<void*> finished_;  // scratch of CollectWaiting
  WaitingRoom waiting_;
};

}  // namespace ebb::storage
