// RangeOverlay holds the ranges that were trimmed or zeroed in the log and not yet in the capacity
// tier: a block in it reads as zeroes, whatever the capacity tier still holds.
//
// Each range carries its order in the log (sequence number of its group * 256 + entry). Ranges do
// not overlap; a later one replaces what it covers, a later write of a block cuts it out. The
// caller serialises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace ebb::storage {

struct OverlayRange {
  uint64_t first = 0;
  uint64_t end = 0;  // exclusive
  uint64_t order = 0;

  friend bool operator==(const OverlayRange&, const OverlayRange&) = default;
};

inline uint64_t LogOrder(uint64_t sequence, uint32_t entry) { return sequence << 8 | entry; }

class RangeOverlay {
 public:
  void Add(const OverlayRange& range);
  // [first, end) is no longer trimmed, as far as it was by a range of order `up_to_order` or less.
  void Cut(uint64_t first, uint64_t end, uint64_t up_to_order = ~uint64_t{0});
  // The order of the range that covers `block`; 0 when none does.
  uint64_t Find(uint64_t block) const;
  // The order of every range that overlaps [first, end).
  void ForEachIn(uint64_t first, uint64_t end,
                 const std::function<void(uint64_t order)>& visit) const;
  // The lowest order of all; the highest number when empty.
  uint64_t oldest_order() const { return orders_.empty() ? ~uint64_t{0} : orders_.begin()->first; }
  // Up to `max_count` ranges of order `up_to_order` or less, ascending by first.
  std::vector<OverlayRange> Collect(uint64_t up_to_order, size_t max_count) const;

  bool empty() const { return ranges_.empty(); }
  size_t size() const { return ranges_.size(); }

 private:
  struct Tail {
    uint64_t end;
    uint64_t order;
  };
  using Ranges = std::map<uint64_t, Tail>;  // by first

  void Insert(uint64_t first, uint64_t end, uint64_t order);
  Ranges::iterator Remove(Ranges::iterator at);

  Ranges ranges_;
  std::map<uint64_t, uint32_t> orders_;  // how many ranges have each order
};

}  // namespace ebb::storage
