// CompressionPool compresses the units of one batch on several threads and hands them back in
// order.
//
// The caller is one of the threads, so that a pool of one thread is a plain loop. Units are worked
// on at most a few ahead of what was taken, in memory that is kept. One batch at a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "storage-backend/reduce/compressor.h"

namespace ebb::storage {

class CompressionPool {
 public:
  // One unit under work.
  struct Slot {
    std::vector<std::byte> raw;
    std::vector<std::byte> stored;
    size_t stored_bytes = 0;  // 0: not worth it
    absl::Status status;
  };
  // Any thread: fills the slot for unit `i`.
  using Work = std::function<void(size_t i, Slot& slot, Compressor& compressor)>;
  // The caller's thread, in order.
  using Take = std::function<absl::Status(size_t i, Slot& slot)>;

  // Units have at most `unit_bytes_max`.
  explicit CompressionPool(size_t unit_bytes_max);
  ~CompressionPool();
  CompressionPool(const CompressionPool&) = delete;
  CompressionPool& operator=(const CompressionPool&) = delete;

  // Units 0 to `count` - 1, on at most `threads` threads, and no more than the host has processors.
  // Ends with the first error of `take`.
  absl::Status Run(size_t count, int threads, const Work& work, const Take& take);

 private:
  static constexpr size_t kSlotsAThread = 2;

  struct State {
    Slot slot;
    bool done = false;
  };

  void AddThreads(size_t threads);
  // Works on the next unit, if there is one that may be begun; the lock is let go meanwhile.
  bool WorkOne(std::unique_lock<std::mutex>& lock, Compressor& compressor);
  void HelperLoop(size_t index);

  const size_t unit_bytes_max_;
  Compressor compressor_;  // the caller's
  std::mutex mutex_;
  std::condition_variable changed_;
  // All below under the lock; slots belong to whoever works on them.
  std::vector<std::unique_ptr<State>> states_;  // unit i uses i % size
  const Work* work_ = nullptr;
  size_t count_ = 0;
  size_t next_ = 0;     // unit to begin
  size_t taken_ = 0;    // units taken
  size_t working_ = 0;  // helpers at work
  size_t helpers_ = 0;  // that may work on this batch
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ebb::storage
