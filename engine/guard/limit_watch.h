// LimitWatch: whether a candidate keeps to the hard limits of the goal.
//
// A limit stands in every lease as a trip condition, and a candidate that breaks one is never kept,
// however much the index gains. Where the incumbent itself breaks a limit, no candidate could ever
// be tried; then the incumbent's own worst recent window is the limit, so that things can only get
// better. Knows no statistics beyond counting windows. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/goal/goal.h"
#include "env/environment.h"

namespace ebb::engine {

class LimitWatch {
 public:
  // `recent`: windows of the incumbent, any order.
  LimitWatch(const GoalLimits& limits, const std::vector<env::Observation>& recent);

  // The tighter of each condition and the limit.
  void Tighten(env::TripConditions& trips) const;
  // A valid window of the candidate; why it has to go at once, or empty.
  std::string Note(const env::WindowMetrics& metrics);
  // Why it may not be kept after the windows so far; empty when it may.
  std::string KeepFault() const;

 private:
  struct Ceiling {
    const GoalLimit* limit;
    double limit_us = 0;    // what the goal says
    double allowed_us = 0;  // what is asked of the candidate
    uint32_t windows = 0;
    uint32_t over = 0;
    uint32_t over_in_row = 0;
    double worst_us = 0;
  };
  static std::string Sentence(const Ceiling& ceiling, const std::string& what);
  void Add(const GoalLimit& limit, double limit_us, const std::vector<env::Observation>& recent);

  std::vector<Ceiling> ceilings_;
};

// The limits that this window breaks, in words: "read p99 is 2.4 ms, at most 2 ms"; or empty.
std::string BrokenLimits(const GoalLimits& limits, const env::WindowMetrics& metrics);

}  // namespace ebb::engine
