// The engine's words as arrays in the order of their enums, for readers that list what is allowed.
#pragma once

#include <array>
#include <string_view>

#include "engine/tuner_service.h"

namespace ebb::rest {

template <typename Enum, size_t kCount>
std::array<std::string_view, kCount> WordsOf(std::string_view (*word)(Enum)) {
  std::array<std::string_view, kCount> words;
  for (size_t i = 0; i < kCount; ++i) words[i] = word(static_cast<Enum>(i));
  return words;
}

inline std::array<std::string_view, 3> GoalWords() {
  return WordsOf<agents::GoalKind, 3>(engine::GoalWord);
}
// A goal as it is written down: one of the three, or weights of one's own.
inline std::array<std::string_view, 4> GoalNames() {
  const auto kinds = GoalWords();
  return {kinds[0], kinds[1], kinds[2], "custom"};
}
inline std::array<std::string_view, 4> ModeWords() {
  return WordsOf<engine::Mode, 4>(engine::ModeWord);
}
inline std::array<std::string_view, 2> OnExitWords() {
  return WordsOf<engine::OnExit, 2>(engine::OnExitWord);
}
inline std::array<std::string_view, 5> OutcomeWords() {
  return WordsOf<engine::Verdict, 5>(engine::VerdictWord);
}
inline std::array<std::string_view, 6> RecommendationStateWords() {
  return WordsOf<engine::RecommendationState, 6>(engine::RecommendationWord);
}
inline std::array<std::string_view, 9> TunerStateWords() {
  return WordsOf<engine::TunerState, 9>(engine::TunerStateWord);
}

}  // namespace ebb::rest
