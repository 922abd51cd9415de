#include "storage-backend/policy/compaction_choice.h"

#include <algorithm>
#include <tuple>

namespace ebb::storage {
namespace {

// Emptying many nearly dead segments at once is bounded, so that one step stays short.
constexpr size_t kSegmentsPerStepMax = 64;

}  // namespace

double CompactionLiveShareLimit(double free_share) {
  constexpr double kMuchFree = 0.25;
  constexpr double kLittleFree = 0.1;
  constexpr double kLimitAtLittle = 0.5;
  constexpr double kLimitAtNone = 0.85;
  if (free_share >= kMuchFree) return kCompactAlwaysLiveShare;
  if (free_share >= kLittleFree) {
    const double way = (kMuchFree - free_share) / (kMuchFree - kLittleFree);
    return kCompactAlwaysLiveShare + way * (kLimitAtLittle - kCompactAlwaysLiveShare);
  }
  const double way = (kLittleFree - std::max(free_share, 0.0)) / kLittleFree;
  return kLimitAtLittle + way * (kLimitAtNone - kLimitAtLittle);
}

std::vector<size_t> ChooseCompaction(const CompactionInput& input) {
  if (input.segments_total == 0) return {};
  const double free_share =
      static_cast<double>(input.segments_free) / static_cast<double>(input.segments_total);
  const auto limit = std::max(static_cast<uint64_t>(CompactionLiveShareLimit(free_share) *
                                                    static_cast<double>(input.segment_bytes)),
                              input.urgent_live_bytes_max);
  std::vector<size_t> worth;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    if (input.candidates[i].live_bytes < limit) worth.push_back(i);
  }
  const size_t kept = std::min(worth.size(), kSegmentsPerStepMax);
  std::partial_sort(worth.begin(), worth.begin() + static_cast<ptrdiff_t>(kept), worth.end(),
                    [&](size_t a, size_t b) {
                      const CompactionCandidate& x = input.candidates[a];
                      const CompactionCandidate& y = input.candidates[b];
                      return std::tie(x.live_bytes, x.device, x.segment) <
                             std::tie(y.live_bytes, y.device, y.segment);
                    });
  worth.resize(kept);
  uint64_t moved_bytes = 0;
  size_t chosen = 0;
  while (chosen < worth.size()) {
    moved_bytes += input.candidates[worth[chosen]].live_bytes;
    if (chosen > 0 && moved_bytes > input.step_bytes) break;
    ++chosen;
  }
  worth.resize(chosen);
  return worth;
}

}  // namespace ebb::storage
