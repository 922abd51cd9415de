#include "storage-backend/volume/waiting_room.h"

#include <chrono>
#include <utility>

namespace ebb::storage {

WaitingRoom::~WaitingRoom() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WaitingRoom::Run(std::function<void*()> job) {
  ++jobs_;
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(job));
  if (idle_ >= waiting_.size()) {
    wake_.notify_one();
  } else if (threads_.size() < threads_max_) {
    threads_.emplace_back([this] { Work(); });
  }
}

void WaitingRoom::Collect(uint64_t wait_ns, std::vector<void*>& finished) {
  std::unique_lock lock(mutex_);
  if (wait_ns > 0 && finished_.empty() && jobs_ > 0) {
    finished_one_.wait_for(lock, std::chrono::nanoseconds(wait_ns),
                           [this] { return !finished_.empty(); });
  }
  jobs_ -= finished_.size();
  finished.insert(finished.end(), finished_.begin(), finished_.end());
  finished_.clear();
}

void WaitingRoom::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!waiting_.empty()) {
      const std::function<void*()> job = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      void* result = job();
      lock.lock();
      finished_.push_back(result);
      finished_one_.notify_one();
    }
    if (stopping_) return;
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    --idle_;
  }
}

}  // namespace ebb::storage
