// EventHeap: what is to happen next, by time; equal times in the order in which they were added.
//
// A few dozen entries at most, so that a binary heap stays in the first cache level. No allocation
// once it has grown.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ebb::twin {

inline constexpr uint64_t kNever = UINT64_MAX;

struct Event {
  uint64_t time_ns = 0;
  uint32_t order = 0;
  uint16_t kind = 0;
  uint32_t argument = 0;
};

class EventHeap {
 public:
  uint64_t next_ns() const { return heap_.empty() ? kNever : heap_.front().time_ns; }
  void Add(uint64_t time_ns, uint16_t kind, uint32_t argument) {
    heap_.push_back({time_ns, next_order_++, kind, argument});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  Event Take() {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  static bool Later(const Event& a, const Event& b) {
    if (a.time_ns != b.time_ns) return a.time_ns > b.time_ns;
    return static_cast<int32_t>(a.order - b.order) > 0;  // the counter wraps
  }

  std::vector<Event> heap_;
  uint32_t next_order_ = 0;
};

}  // namespace ebb::twin
