// HistoryGenerator writes a long history as tuning writes it, through the real History.
//
// Four nodes, a change every few minutes on each for a year: proposed, applied and decided, with
// the seventeen events around it, most of them told by the node. The same seed writes the same
// history. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/rng.h"
#include "engine/history/history.h"

namespace ebb::history_bench {

inline constexpr int64_t kBeginMs = 1'700'000'000'000;
inline constexpr int64_t kDays = 365;

const std::vector<std::string>& Nodes();
const std::vector<std::string>& Knobs();

class HistoryGenerator {
 public:
  // `events`: how many the whole history will have.
  HistoryGenerator(engine::History& history, uint64_t events, uint64_t seed);

  // The next change with everything around it: kEventsPerChange events.
  absl::Status WriteChange();
  static constexpr uint64_t kEventsPerChange = 20;

 private:
  engine::Change MakeChange();
  absl::Status WriteState(engine::Change& change, const std::string& step, const std::string& text,
                          std::vector<engine::EventDraft> events);
  engine::EventDraft Event(const engine::Change& change, const std::string& kind,
                           const std::string& text, const std::string& data = {}) const;

  engine::History& history_;
  Rng rng_;
  double ms_per_change_;
  uint64_t changes_ = 0;
  int64_t now_ms_ = kBeginMs;
};

}  // namespace ebb::history_bench
