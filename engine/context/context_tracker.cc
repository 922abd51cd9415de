#include "engine/context/context_tracker.h"

#include <utility>

#include <fmt/format.h>

namespace ebb::engine {
namespace {

constexpr uint32_t kVoidRecallsMax = 3;

}  // namespace

void ContextTracker::NewStretch() {
  stretch_ = {};
  id_.clear();
  remembered_ = false;
  recalled_.clear();
  void_recalls_ = 0;
}

bool ContextTracker::Next(const LoadFeatures& features, const std::string& device_class,
                          int64_t wall_ms) {
  if (!id_.empty()) {
    if (LoadContext* present = library_.Find(id_)) present->Add(features, wall_ms);
    return false;
  }
  // The other kind of clients within the first windows: what came before was no part of this load.
  if (stretch_.windows > 0 && stretch_.centre.closed_loop != features.closed_loop) stretch_ = {};
  stretch_.device_class = device_class;
  stretch_.Add(features, wall_ms);
  if (stretch_.windows < settle_windows_) return false;
  if (LoadContext* known = library_.Match(stretch_)) {
    id_ = known->id;
    remembered_ = true;
    known->Add(stretch_.centre, wall_ms);
  } else {
    id_ = library_.Remember(std::move(stretch_)).id;
  }
  stretch_ = {};
  return true;
}

const LoadContext* ContextTracker::Present() const {
  for (const LoadContext& each : library_.contexts()) {
    if (each.id == id_) return &each;
  }
  return nullptr;
}

ContextStatus ContextTracker::Status(const std::string& goal) const {
  ContextStatus status;
  const LoadContext* present = Present();
  if (present == nullptr) {
    status.load =
        fmt::format("a load seen for {} of {} windows", stretch_.windows, settle_windows_);
    return status;
  }
  status.id = id_;
  status.load = present->Load();
  status.remembered = remembered_;
  status.windows = present->windows;
  status.first_seen_ms = present->first_seen_ms;
  const auto best = present->best.find(goal);
  if (best != present->best.end()) {
    status.best_effect = best->second.effect;
    status.best_change = best->second.change_id;
  }
  return status;
}

std::optional<BestKnown> ContextTracker::ToRecall(const std::string& goal) const {
  const LoadContext* present = Present();
  if (present == nullptr || recalled_.contains(goal)) return std::nullopt;
  const auto best = present->best.find(goal);
  if (best == present->best.end()) return std::nullopt;
  return best->second;
}

void ContextTracker::NoteEnd(const Change& change, const std::map<std::string, int64_t>& from,
                             const std::map<std::string, int64_t>& to) {
  if (change.context.empty()) return;
  if (change.actor.starts_with(kContextActor)) {
    library_.NoteRecall(change.context, change.goal, change.verdict);
    const bool ended = change.verdict != Verdict::kVoid || ++void_recalls_ >= kVoidRecallsMax;
    if (change.context == id_ && ended) EndRecall(change.goal);
  } else if (change.verdict == Verdict::kKeep && change.measured) {
    library_.NoteProved(change.context, change.goal, from,
                        {to, *change.measured, change.id, change.decided_ms, 1});
  }
}

}  // namespace ebb::engine
