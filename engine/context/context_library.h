// ContextLibrary: the loads a node has lived under, each with the setting that was proved best
// there.
//
// A context is what a stretch of load between two shifts looked like: the middle and the spread of
// its load features, on one class of devices. It holds at most ten; the least valuable one is
// forgotten first. A best known setting is knowledge, not a command: whoever uses it puts it on
// trial, and every failed trial lowers its standing until it is dropped. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/index/load_features.h"
#include "engine/tuner_service.h"

namespace ebb::engine {

// A setting that was kept by a trial in this context.
struct BestKnown {
  std::map<std::string, int64_t> setting;  // every knob, by name
  // Of the trial that kept it; where several were kept one on the other, of all of them together.
  Effect effect;
  uint64_t change_id = 0;
  int64_t proved_ms = 0;
  double standing = 1;  // 1: proved and never failed since
};

struct LoadContext {
  std::string id;  // "c7": of this node, never given twice
  std::string device_class;
  LoadFeatures centre;
  std::array<double, kLoadFeatureCount> spread{};  // standard deviation of a window
  uint64_t windows = 0;
  int64_t first_seen_ms = 0;
  int64_t last_seen_ms = 0;
  std::map<std::string, BestKnown> best;  // by goal: what serves reads may not serve writes

  // A window under this load.
  void Add(const LoadFeatures& features, int64_t wall_ms);
  // "62 % reads of 4 KiB, writes of 16 KiB, 32 requests waiting".
  std::string Load() const;
};

// How far apart the middles of two stretches are, as load_features.h counts, or in their own
// spreads where these are wider; infinite where they cannot be compared.
double ContextDistance(const LoadContext& a, const LoadContext& b);
// Nearer than this they are the same context. A jump that the shift detector reports is 2.4 or
// more.
inline constexpr double kSameContextDistance = 1.5;

class ContextLibrary {
 public:
  static constexpr size_t kContextsMax = 10;
  // A best known setting with less standing than this is dropped: two reverts, or three nulls.
  static constexpr double kStandingMin = 0.2;

  const std::vector<LoadContext>& contexts() const { return contexts_; }
  LoadContext* Find(std::string_view id);
  // The nearest remembered context that a stretch belongs to; nullptr: the load is a new one.
  LoadContext* Match(const LoadContext& stretch);
  // Remembers `stretch` under a new id and forgets the least valuable other one when there are too
  // many. Pointers of before are void.
  LoadContext& Remember(LoadContext stretch);

  // A trial in context `id` kept `proved` over the setting `from`.
  void NoteProved(std::string_view id, const std::string& goal,
                  const std::map<std::string, int64_t>& from, BestKnown proved);
  // What came of a trial of the best known setting: it was kept again, or failed.
  void NoteRecall(std::string_view id, const std::string& goal, Verdict verdict);

  std::string Save() const;
  absl::Status Load(std::string_view text);

 private:
  std::vector<LoadContext> contexts_;
  uint64_t ids_given_ = 0;
};

}  // namespace ebb::engine
