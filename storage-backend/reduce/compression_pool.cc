#include "storage-backend/reduce/compression_pool.h"

#include <algorithm>
#include <utility>

namespace ebb::storage {

CompressionPool::CompressionPool(size_t unit_bytes_max) : unit_bytes_max_(unit_bytes_max) {}

CompressionPool::~CompressionPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CompressionPool::AddThreads(size_t threads) {
  while (threads_.size() + 1 < threads) {
    threads_.emplace_back([this, index = threads_.size()] { HelperLoop(index); });
  }
  while (states_.size() < std::max<size_t>(threads * kSlotsAThread, 1)) {
    auto state = std::make_unique<State>();
    state->slot.raw.resize(unit_bytes_max_);
    state->slot.stored.resize(unit_bytes_max_);
    states_.push_back(std::move(state));
  }
}

bool CompressionPool::WorkOne(std::unique_lock<std::mutex>& lock, Compressor& compressor) {
  if (next_ >= std::min(count_, taken_ + states_.size())) return false;
  const size_t unit = next_++;
  State& state = *states_[unit % states_.size()];
  const Work& work = *work_;
  lock.unlock();
  state.slot.status = absl::OkStatus();
  state.slot.stored_bytes = 0;
  work(unit, state.slot, compressor);
  lock.lock();
  state.done = true;
  return true;
}

void CompressionPool::HelperLoop(size_t index) {
  Compressor compressor;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    bool worked = false;
    if (index < helpers_) {
      ++working_;
      worked = WorkOne(lock, compressor);
      --working_;
      if (worked) changed_.notify_all();
    }
    if (!worked) changed_.wait(lock);
  }
}

absl::Status CompressionPool::Run(size_t count, int threads, const Work& work, const Take& take) {
  const size_t processors = std::max(std::thread::hardware_concurrency(), 1u);
  const size_t used = std::clamp<size_t>(static_cast<size_t>(std::max(threads, 1)), 1, processors);
  std::unique_lock lock(mutex_);
  AddThreads(used);
  work_ = &work;
  count_ = count;
  next_ = 0;
  taken_ = 0;
  helpers_ = used - 1;
  for (const auto& state : states_) state->done = false;
  if (helpers_ > 0) changed_.notify_all();

  absl::Status status;
  for (size_t unit = 0; unit < count && status.ok(); ++unit) {
    State& state = *states_[unit % states_.size()];
    while (!state.done) {
      if (!WorkOne(lock, compressor_)) changed_.wait(lock);
    }
    lock.unlock();
    status = take(unit, state.slot);
    lock.lock();
    state.done = false;
    taken_ = unit + 1;
    if (helpers_ > 0) changed_.notify_all();
  }
  // After an error helpers may still be at work on units that nobody takes.
  count_ = 0;
  helpers_ = 0;
  changed_.wait(lock, [this] { return working_ == 0; });
  return status;
}

}  // namespace ebb::storage
