// Recommendation: a change that waits for a person.
//
// What the agent would try, in a form to decide on: from where to where, between which bounds, what
// it is expected to bring and until when the advice holds. Times are Unix milliseconds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agents/agent.h"

namespace ebb::engine {

enum class RecommendationState : uint8_t {
  kWaiting,   // for a person
  kApproved,  // its trial starts as soon as the envelope allows one
  kTried,     // its trial began: the change tells what came of it
  kRejected,  // by a person; the move is not proposed again
  kExpired,
  kWithdrawn  // no longer legal or no longer wanted: `decision_reason` says why
};

struct RecommendedKnob {
  std::string knob;
  int64_t from = 0;
  int64_t to = 0;
  // What the envelope would allow from here.
  int64_t low = 0;
  int64_t high = 0;
};

struct Recommendation {
  // Made of the node, the goal and the move, so that the same advice has the same id every time.
  std::string id;
  uint64_t change_id = 0;  // its record in the history
  std::string node;
  std::string actor;  // who recommends: "agent:hill_climb"
  std::string goal;
  std::vector<RecommendedKnob> knobs;
  // Every knob's value that it starts from: another incumbent makes another candidate of it.
  std::map<std::string, int64_t> from_setting;
  std::string reason;
  std::optional<agents::Effect> expected;  // none: the agent has no opinion
  int64_t made_ms = 0;
  int64_t expires_ms = 0;
  RecommendationState state = RecommendationState::kWaiting;
  std::string decided_by;  // "operator:alice", "ebbd"
  int64_t decided_ms = 0;
  std::string decision_reason;

  bool open() const {
    return state == RecommendationState::kWaiting || state == RecommendationState::kApproved;
  }
};

// waiting, approved, tried, rejected, expired, withdrawn
std::string_view RecommendationWord(RecommendationState state);
std::optional<RecommendationState> ParseRecommendationState(std::string_view word);

}  // namespace ebb::engine
