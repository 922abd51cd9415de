// Changes and writes for the tests of the history.
#pragma once

#include <string>

#include "engine/history/history.h"

namespace ebb::engine {

inline Change MakeChange(const std::string& node, int64_t wall_ms, const std::string& knob,
                         const std::string& actor = "agent:hill_climb") {
  Change change;
  change.node = node;
  change.proposed_ms = wall_ms;
  change.actor = actor;
  change.goal = "read";
  change.knobs = {{knob, 10, 20}};
  change.reason = "reads wait for the disk";
  change.predicted = Effect{0.1, 0.05, 0.15};
  change.steps = {{wall_ms, "proposed", "a larger read cache"}};
  return change;
}

inline absl::Status Put(History& history, Change& change, const std::string& kind = "proposed") {
  HistoryWrite write;
  write.change = &change;
  write.change_event = kind;
  write.wall_ms = change.proposed_ms;
  return history.Write(write);
}

}  // namespace ebb::engine
