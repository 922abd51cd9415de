// ContextTracker knows which load context a node is in, and what to try first there.
//
// A stretch of load begins at the start, after a gap and at every shift. After enough windows it is
// compared with the library: then it is a remembered context or a new one. The best known setting
// of a remembered one may be recalled once a stretch and goal. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "engine/context/context_library.h"

namespace ebb::engine {

class ContextTracker {
 public:
  // `settle_windows` of a stretch are looked at before it is given a name.
  explicit ContextTracker(uint32_t settle_windows) : settle_windows_(settle_windows) {}

  // The load became another one, or nobody looked for a while.
  void NewStretch();
  // A window with load. True when the context became known with it.
  bool Next(const LoadFeatures& features, const std::string& device_class, int64_t wall_ms);

  // Empty while the stretch is too short to tell.
  const std::string& id() const { return id_; }
  // Whether the context was in the library before this stretch.
  bool remembered() const { return remembered_; }
  ContextStatus Status(const std::string& goal) const;

  // The setting to try first, when there is one and it had no trial in this stretch.
  std::optional<BestKnown> ToRecall(const std::string& goal) const;
  // The recall was refused, or recommended: not again in this stretch.
  void EndRecall(const std::string& goal) { recalled_.insert(goal); }

  // The end of a change: what it proved for its context. `from` and `to` are the whole settings
  // that it was between.
  void NoteEnd(const Change& change, const std::map<std::string, int64_t>& from,
               const std::map<std::string, int64_t>& to);

  ContextLibrary& library() { return library_; }
  const ContextLibrary& library() const { return library_; }

 private:
  const LoadContext* Present() const;

  uint32_t settle_windows_;
  ContextLibrary library_;
  LoadContext stretch_;
  std::string id_;
  bool remembered_ = false;
  std::set<std::string> recalled_;  // goals whose recall ended in this stretch
  uint32_t void_recalls_ = 0;
};

// The actor of a recall's change: "context:c3".
inline constexpr std::string_view kContextActor = "context:";

}  // namespace ebb::engine
