// Envelope: what may be put on trial at all, and when.
//
// Knows no statistics. Every refusal is one sentence. Windows are the measure of time, so that a
// jumping clock changes nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "env/knob_space.h"

namespace ebb::engine {

struct EnvelopeConfig {
  uint32_t knobs_per_trial_max = 2;            // without a prediction
  uint32_t knobs_per_predicted_trial_max = 8;  // with one
  double step_unit_max = 1.0;                  // longest move of one knob on its own 0..1 scale
  uint32_t trials_per_hour_max = 120;
  uint32_t cool_down_windows = 3;    // after a revert
  uint32_t tabu_windows = 600;       // a reverted move stays refused for this long
  double tabu_unit_distance = 0.05;  // nearer than this counts as the same move
  double dirty_share_max = 0.95;
  uint32_t usable_windows_min = 3;            // in a row, before a trial
  bool allow_identical = false;               // true: a trial may change nothing (A/A studies)
  std::vector<std::string> never_touch = {};  // knobs that no trial may move, by name
  uint64_t host_memory_bytes = 0;             // of the node's host; 0: unknown
  double memory_share_max = 0.10;             // of it that read_cache_bytes may be
};

// The state of the node at the moment a trial might start.
struct Situation {
  uint64_t window = 0;
  double dirty_share = 0;
  bool draining_by_operator = false;
  uint32_t usable_windows_in_row = 0;
  std::string unusable_reason = {};  // of the latest window, when it was not usable
};

class Envelope {
 public:
  Envelope(const EnvelopeConfig& config, double window_seconds)
      : config_(config), window_seconds_(window_seconds) {}

  // Why nothing at all may be tried on a node with these knobs: a name of the never-touch list that
  // fits none of them may be meant for one that would be touched then. Empty when all is well.
  std::string ConfigFault(const env::KnobSpace& space) const;
  bool NeverTouches(std::string_view knob) const;
  // Trouble on the node in which nothing but its trusted setting may run; empty when there is none.
  std::string TroubleFault(const Situation& situation) const;
  // Why no trial may start now, whatever the candidate; empty when one may.
  std::string SituationFault(const Situation& situation) const;
  // Why `candidate` may not be tried; empty when it may.
  std::string CandidateFault(const env::KnobSpace& space, const env::Setting& incumbent,
                             const env::Setting& candidate, const std::vector<bool>& frozen,
                             bool predicted, uint64_t window) const;

  // The lowest and highest legal value of a knob that one step from `value` may reach.
  std::pair<int64_t, int64_t> Bounds(const env::KnobSpace& space, size_t knob, int64_t value) const;
  const EnvelopeConfig& config() const { return config_; }

  void NoteTrialStarted(uint64_t window);
  // A trial of an earlier sidecar, so that a restart does not renew the budget.
  void NotePastTrial(double seconds_ago);
  void NoteReverted(const env::Setting& incumbent, const env::Setting& candidate, uint64_t window);
  // The load is of this context now: a move that failed under another one may help here. Empty: a
  // load that has no name yet.
  void SetContext(const std::string& id);
  // A new goal: what failed before may help now.
  void ForgetTabu() { tabu_.clear(); }

 private:
  struct Tabu {
    std::string context;
    env::Setting from;
    env::Setting to;
    uint64_t until_window = 0;
  };
  double MemoryMax() const;
  std::string MemoryFault(const env::KnobSpace& space, size_t knob, int64_t value) const;

  EnvelopeConfig config_;
  double window_seconds_;
  std::string context_;
  std::deque<int64_t> trial_windows_;  // negative: before this object
  std::vector<Tabu> tabu_;
  uint64_t cool_until_window_ = 0;
};

}  // namespace ebb::engine
