// WindowLog: the latest windows in which the incumbent ran under the present load.
//
// The trial's "before", the trip wires and the minute's mean come from here. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "engine/guard/effect_estimator.h"
#include "engine/index/performance_index.h"
#include "engine/tuner_service.h"
#include "env/observation.h"

namespace ebb::engine {

class WindowLog {
 public:
  explicit WindowLog(size_t windows_max) : windows_max_(windows_max) {}

  // Histograms are dropped: nobody asks for them here. `index_known`: at the time it was measured.
  void Add(int64_t window, env::Observation observation, bool index_known);
  // The load or the incumbent became another one.
  void Clear() { entries_.clear(); }
  // Index of every window by the present baseline and goal, oldest first; windows without index
  // are left out, and so are those older than `oldest_window`.
  std::vector<LogSample> Samples(const BaselineModel& baseline, const Goal& goal,
                                 int64_t oldest_window) const;
  // How many Samples would give at most; cheap.
  size_t CountKnown(int64_t oldest_window) const;
  // Those not older than `oldest_window`, oldest first.
  std::vector<env::Observation> Observations(int64_t oldest_window = 0) const;

 private:
  struct Entry {
    int64_t window = 0;
    env::Observation observation;
    bool index_known = false;
  };
  size_t windows_max_;
  std::deque<Entry> entries_;
};

SeriesPoint MakeSeriesPoint(const env::Observation& observation, const IndexReading& reading,
                            bool on_trial, bool holdback);
void AddToTotals(const env::WindowMetrics& metrics, NodeTotals& totals);

}  // namespace ebb::engine
