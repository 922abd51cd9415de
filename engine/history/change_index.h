// ChangeIndex finds changes by time, knob, verdict, actor, goal and context.
//
// For each value of each of these it keeps a list of (proposed time, id), one of each node and one
// of all nodes. A query walks the lists of what it names side by side, newest first; each skips to
// where the others are, so that it reads keys of the shortest list at most and no change that does
// not match. Thread-safe as its store is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/history/ordered_store.h"
#include "engine/tuner_service.h"

namespace ebb::engine {

class ChangeIndex {
 public:
  explicit ChangeIndex(OrderedStore& store) : store_(store) {}

  // Finds out which lists there are: histories of before have none by goal and context.
  absl::Status Open();
  // Makes those that are missing. Safe to be killed in.
  using ReadChangeById = std::function<absl::StatusOr<Change>(uint64_t id)>;
  absl::Status Complete(const ReadChangeById& read_change);

  // What turns the lists of `before` (none: a new change) into those of `after`.
  static void AddEdits(const std::optional<Change>& before, const Change& after,
                       std::vector<StoreEdit>& batch);

  // Visits the ids of the changes that the query asks for, newest first, until `visit` returns
  // false; limit and before_id are the caller's. `before`: only changes older than this one. Some
  // may not match: those being written meanwhile, and by goal and context where lists are missing.
  absl::Status Find(const std::string& node, const ChangeQuery& query,
                    const std::optional<Change>& before,
                    const std::function<bool(uint64_t id)>& visit) const;

 private:
  OrderedStore& store_;
  bool complete_ = false;
};

}  // namespace ebb::engine
