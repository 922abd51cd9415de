// RecommendationBook: what was recommended for one node and what people decided about it.
//
// At most one recommendation is open at a time; the latest kBookEntriesMax are remembered. A move
// that a person rejected stays rejected for kRejectionMs, whatever the goal. A value type without
// clock or I/O: the loop saves it in the history together with the event of each step. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/recommendation.h"
#include "env/knob_space.h"

namespace ebb::engine {

inline constexpr size_t kBookEntriesMax = 50;
inline constexpr int64_t kRejectionMs = int64_t{30} * 24 * 3600 * 1000;

std::string RecommendationId(std::string_view node, std::string_view goal,
                             const std::vector<env::KnobChange>& move);

class RecommendationBook {
 public:
  // What waits for a person or for its trial.
  std::optional<Recommendation> open() const;
  std::optional<Recommendation> Find(std::string_view id) const;
  std::vector<Recommendation> NewestFirst() const;

  // `recommendation` is open and nothing else is. The same advice as once before takes the place of
  // its old entry.
  void Add(Recommendation recommendation);
  // NotFound, or FailedPrecondition with what became of it.
  absl::StatusOr<Recommendation> Decide(std::string_view id, bool approve, const std::string& actor,
                                        const std::string& reason, int64_t now_ms);
  // Ends the open one, if there is one.
  std::optional<Recommendation> Close(RecommendationState state, const std::string& reason,
                                      int64_t now_ms);

  // Why this move may not be made, when a person rejected the same one; else empty. Moves to within
  // `unit_distance` of each other are the same.
  std::string RejectionOf(const env::KnobSpace& space, const std::vector<env::KnobChange>& move,
                          double unit_distance, int64_t now_ms) const;

  // Grows with every change of the book.
  uint64_t version() const { return version_; }
  std::string Save() const;
  static absl::StatusOr<RecommendationBook> Load(std::string_view text);

 private:
  Recommendation* Open();

  std::vector<Recommendation> entries_;  // oldest first
  uint64_t version_ = 0;
};

}  // namespace ebb::engine
