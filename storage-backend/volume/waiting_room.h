// WaitingRoom runs jobs that may block, on a few threads of its own that are started when first
// needed.
//
// For the part of asynchronous requests that has to wait. Run, Collect and the destructor from one
// thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ebb::storage {

class WaitingRoom {
 public:
  explicit WaitingRoom(size_t threads_max) : threads_max_(threads_max) {}
  ~WaitingRoom();  // after the jobs that were given to it

  // `job` does its work and returns what Collect is to hand back.
  void Run(std::function<void*()> job);
  // Appends what finished jobs returned; waits for one at most `wait_ns` when there is none.
  void Collect(uint64_t wait_ns, std::vector<void*>& finished);
  // Jobs whose result was not collected yet.
  size_t jobs() const { return jobs_; }

 private:
  void Work();

  const size_t threads_max_;
  size_t jobs_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable finished_one_;
  std::deque<std::function<void*()>> waiting_;
  std::vector<void*> finished_;
  size_t idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ebb::storage
