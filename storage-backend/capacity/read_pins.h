// ReadPins lets a reader look a place up and then read it, while the writer frees segments.
//
// A segment whose last unit moved or died must not be discarded or written again as long as a
// reader may still be on its way to it. Readers pin the current epoch around "look up, then read";
// the writer tags a freed segment with the epoch and reuses it when every reader of that epoch and
// of earlier ones has left. Enter and leave are one atomic addition each on a counter that few
// threads share; a reader never waits. All operations are sequentially consistent: a reader counts
// itself in and then confirms the epoch, the writer sets the epoch and then reads the counters, so
// one of the two sees the other.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

namespace ebb::storage {

class ReadPins {
 public:
  class Pin {
   public:
    explicit Pin(std::atomic<uint64_t>* count) : count_(count) {}
    ~Pin() { count_->fetch_sub(1); }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

   private:
    std::atomic<uint64_t>* const count_;
  };

  // For readers, any thread: hold the pin from before the look-up until after the read.
  Pin Enter() {
    Slot& slot = slots_[std::hash<std::thread::id>{}(std::this_thread::get_id()) % kSlots];
    while (true) {
      const uint64_t epoch = epoch_.load();
      std::atomic<uint64_t>& count = slot.readers[epoch % 2];
      count.fetch_add(1);
      if (epoch_.load() == epoch) return Pin(&count);
      count.fetch_sub(1);
    }
  }

  // For the writer, one thread: the tag of what it frees now, after the new places are visible.
  uint64_t epoch() const { return epoch_.load(); }
  // Whether no reader can be on its way to what was freed with `tag`; moves the epoch on when it
  // can.
  bool Drained(uint64_t tag) {
    while (epoch_.load() < tag + 2) {
      const uint64_t epoch = epoch_.load();
      // Readers of the epoch before this one share the counters of the next one.
      uint64_t readers = 0;
      for (const Slot& slot : slots_) readers += slot.readers[(epoch + 1) % 2].load();
      if (readers != 0) return false;
      epoch_.store(epoch + 1);
    }
    return true;
  }

 private:
  static constexpr size_t kSlots = 32;
  struct alignas(64) Slot {
    std::array<std::atomic<uint64_t>, 2> readers{};
  };

  std::atomic<uint64_t> epoch_{1};
  std::array<Slot, kSlots> slots_;
};

}  // namespace ebb::storage
