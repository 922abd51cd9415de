// SeriesStore: the windows of every node, and their roll-ups at 10 s, 1 min and 10 min.
//
// A window and the roll-ups that count it are one atomic write, so that a crash leaves a window in
// all of them or in none. Each level is kept for a time of its own. A power cut loses at most the
// minute under way. Thread-safe. Times are Unix milliseconds.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/history/ordered_store.h"
#include "engine/history/series_retention.h"
#include "engine/tuner_service.h"

namespace ebb::engine {

class SeriesStore {
 public:
  SeriesStore(OrderedStore& store, const SeriesRetention& keep);

  // Finds out whether there are roll-ups; a history written before there were any has none.
  absl::Status Open();
  // Makes them where there are none. To be called before the first Append.
  absl::Status MakeRollUps();

  // A window that is there already is not counted again.
  absl::Status Append(const std::string& node, const SeriesPoint& point);
  // As TunerService::ReadSeries. max_points 0: no limit.
  absl::StatusOr<Series> Read(const std::string& node, int64_t from_ms, int64_t to_ms,
                              size_t max_points);

 private:
  struct Span {
    int64_t from_ms = 0;
    int64_t to_ms = 0;
  };
  absl::StatusOr<Span> Clip(const std::string& node, Span span);
  absl::StatusOr<size_t> ChooseLevel(const std::string& node, const Span& span, int64_t points);
  absl::Status Prune(int64_t now_ms);
  absl::Status PruneLevel(size_t level, int64_t now_ms);

  OrderedStore& store_;
  const std::array<int64_t, 4> keep_ms_;
  bool has_roll_ups_ = false;
  std::mutex append_mutex_;
  uint32_t points_since_prune_ = 0;
};

}  // namespace ebb::engine
