#include "storage-backend/log/range_overlay.h"

#include <iterator>

#include "base/check.h"

namespace ebb::storage {

void RangeOverlay::Insert(uint64_t first, uint64_t end, uint64_t order) {
  ranges_[first] = {.end = end, .order = order};
  ++orders_[order];
}

RangeOverlay::Ranges::iterator RangeOverlay::Remove(Ranges::iterator at) {
  const auto order = orders_.find(at->second.order);
  if (--order->second == 0) orders_.erase(order);
  return ranges_.erase(at);
}

void RangeOverlay::Add(const OverlayRange& range) {
  EBB_CHECK(range.first < range.end && range.order != 0);
  Cut(range.first, range.end);
  Insert(range.first, range.end, range.order);
}

void RangeOverlay::Cut(uint64_t first, uint64_t end, uint64_t up_to_order) {
  auto at = ranges_.upper_bound(first);
  if (at != ranges_.begin() && std::prev(at)->second.end > first) --at;
  while (at != ranges_.end() && at->first < end) {
    const OverlayRange old = {at->first, at->second.end, at->second.order};
    if (old.order > up_to_order) {
      ++at;
      continue;
    }
    at = Remove(at);
    if (old.first < first) Insert(old.first, first, old.order);
    if (old.end > end) Insert(end, old.end, old.order);
  }
}

void RangeOverlay::ForEachIn(uint64_t first, uint64_t end,
                             const std::function<void(uint64_t order)>& visit) const {
  auto at = ranges_.upper_bound(first);
  if (at != ranges_.begin() && std::prev(at)->second.end > first) --at;
  for (; at != ranges_.end() && at->first < end; ++at) visit(at->second.order);
}

uint64_t RangeOverlay::Find(uint64_t block) const {
  auto at = ranges_.upper_bound(block);
  if (at == ranges_.begin()) return 0;
  --at;
  return at->second.end > block ? at->second.order : 0;
}

std::vector<OverlayRange> RangeOverlay::Collect(uint64_t up_to_order, size_t max_count) const {
  std::vector<OverlayRange> found;
  for (auto at = ranges_.begin(); at != ranges_.end() && found.size() < max_count; ++at) {
    if (at->second.order <= up_to_order) {
      found.push_back({at->first, at->second.end, at->second.order});
    }
  }
  return found;
}

}  // namespace ebb::storage
