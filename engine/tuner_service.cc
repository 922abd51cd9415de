#include "engine/tuner_service.h"

#include <array>

#include "base/check.h"

namespace ebb::engine {
namespace {

// In the order of their enums.
constexpr std::array<std::string_view, 4> kModeWords = {"observe", "recommend", "approve", "auto"};
constexpr std::array<std::string_view, 5> kVerdictWords = {"pending", "keep", "revert",
                                                           "inconclusive", "void"};
constexpr std::array<std::string_view, 9> kTunerStateWords = {
    "disconnected", "learning_baseline", "observing", "proposing", "settling",
    "screening",    "confirming",        "converged", "paused"};
constexpr std::array<std::string_view, 2> kOnExitWords = {"keep", "restore"};
constexpr std::array<std::string_view, 3> kGoalWords = {"read", "write", "balanced"};
constexpr std::array<std::string_view, 6> kRecommendationWords = {
    "waiting", "approved", "tried", "rejected", "expired", "withdrawn"};

template <typename Enum, size_t kCount>
std::string_view Word(const std::array<std::string_view, kCount>& words, Enum value) {
  const auto position = static_cast<size_t>(value);
  EBB_CHECK(position < kCount);
  return words[position];
}

template <typename Enum, size_t kCount>
std::optional<Enum> Parse(const std::array<std::string_view, kCount>& words,
                          std::string_view word) {
  for (size_t i = 0; i < kCount; ++i) {
    if (words[i] == word) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view ModeWord(Mode mode) { return Word(kModeWords, mode); }
std::string_view VerdictWord(Verdict verdict) { return Word(kVerdictWords, verdict); }
std::string_view TunerStateWord(TunerState state) { return Word(kTunerStateWords, state); }
std::string_view GoalWord(agents::GoalKind goal) { return Word(kGoalWords, goal); }

std::string_view OnExitWord(OnExit on_exit) { return Word(kOnExitWords, on_exit); }
std::optional<OnExit> ParseOnExit(std::string_view word) {
  return Parse<OnExit>(kOnExitWords, word);
}
std::optional<Mode> ParseMode(std::string_view word) { return Parse<Mode>(kModeWords, word); }
std::optional<Verdict> ParseVerdict(std::string_view word) {
  return Parse<Verdict>(kVerdictWords, word);
}
std::string_view RecommendationWord(RecommendationState state) {
  return Word(kRecommendationWords, state);
}
std::optional<RecommendationState> ParseRecommendationState(std::string_view word) {
  return Parse<RecommendationState>(kRecommendationWords, word);
}
std::optional<agents::GoalKind> ParseGoal(std::string_view word) {
  return Parse<agents::GoalKind>(kGoalWords, word);
}

}  // namespace ebb::engine
