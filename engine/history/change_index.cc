// Keys: one byte for what the list is of (t time, k knob, v verdict, a actor, g goal, c context),
// the node or nothing for all nodes, 0, the value or nothing, 0, proposed time, id. The last 16
// bytes are a list's entry; lists are walked from the largest down.
#include "engine/history/change_index.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>

#include "base/status.h"
#include "engine/history/keys.h"

namespace ebb::engine {
namespace {

constexpr std::string_view kCompleteKey = "history/change_index";
constexpr std::string_view kCompleteValue = "1";
constexpr size_t kEntryBytes = 16;

std::string ListPrefix(char kind, const std::string& node, std::string_view value) {
  std::string prefix(1, kind);
  prefix.append(node).push_back('\0');
  prefix.append(value).push_back('\0');
  return prefix;
}

std::string EntryOf(const Change& change) {
  return TimeKey(change.proposed_ms) + BigEndian(change.id);
}

std::set<std::string> KeysOf(const Change& change) {
  std::set<std::string> keys;
  const std::string entry = EntryOf(change);
  for (const std::string& node : {change.node, std::string()}) {
    const auto add = [&](char kind, std::string_view value) {
      keys.insert(ListPrefix(kind, node, value) + entry);
    };
    add('t', "");
    add('v', VerdictWord(change.verdict));
    add('a', change.actor);
    add('g', change.goal);
    if (!change.context.empty()) add('c', change.context);
    for (const env::KnobChange& knob : change.knobs) add('k', knob.knob);
  }
  return keys;
}

// One list, or several as one (an actor's prefix names many).
class Lists {
 public:
  Lists(OrderedStore& store, const std::vector<std::string>& prefixes, const std::string& from,
        const std::string& to) {
    for (const std::string& prefix : prefixes) {
      lists_.push_back(
          {store.MakeCursor(Table::kChangeIndex, prefix + from, prefix + to), prefix, false, {}});
    }
  }

  // To the greatest entry that is at most `entry`; false when there is none.
  bool SeekDown(const std::string& entry) {
    entry_.clear();
    for (List& list : lists_) {
      if (!list.started || list.entry > entry) list.SeekDown(entry);
      if (list.entry > entry_) entry_ = list.entry;
    }
    return !entry_.empty();
  }
  const std::string& entry() const { return entry_; }
  absl::Status status() const {
    for (const List& list : lists_) EBB_RETURN_IF_ERROR(list.cursor->status());
    return absl::OkStatus();
  }

 private:
  struct List {
    std::unique_ptr<KeyCursor> cursor;
    std::string prefix;
    bool started;
    std::string entry;  // empty: at the end

    void SeekDown(const std::string& to) {
      // The next one is often the one: a step is much cheaper than a seek.
      bool there = started ? cursor->Down() : cursor->SeekDown(prefix + to);
      started = true;
      if (there && Entry() > to) there = cursor->SeekDown(prefix + to);
      entry = there ? Entry() : std::string_view();
    }
    std::string_view Entry() const { return cursor->key().substr(prefix.size()); }
  };
  std::vector<List> lists_;
  std::string entry_;
};

// The values of lists of `kind` that begin with `begin`, by skipping from each to the next.
absl::StatusOr<std::vector<std::string>> ValuesOf(OrderedStore& store, char kind,
                                                  const std::string& node,
                                                  const std::string& begin) {
  std::string from = ListPrefix(kind, node, begin);
  from.pop_back();
  const size_t value_at = from.size() - begin.size();
  const auto cursor = store.MakeCursor(Table::kChangeIndex, from, from + '\xff');
  std::vector<std::string> values;
  bool found = cursor->SeekDown(from + '\xff');
  while (found) {
    const std::string_view key = cursor->key();
    if (key.size() < value_at + 1 + kEntryBytes) {
      return absl::DataLossError("history: the index of changes is damaged");
    }
    values.emplace_back(key.substr(value_at, key.size() - value_at - 1 - kEntryBytes));
    found = cursor->SeekDown(ListPrefix(kind, node, values.back()));
  }
  EBB_RETURN_IF_ERROR(cursor->status());
  return values;
}

// Visits what is in all of them, from `to` down. Each in turn skips to where the others are.
absl::Status Walk(std::vector<Lists>& named, const std::string& to,
                  const std::function<bool(uint64_t id)>& visit) {
  std::string target = to;
  while (true) {
    bool agreed = true;
    for (Lists& lists : named) {
      if (!lists.SeekDown(target)) return lists.status();
      if (lists.entry() < target) {
        target = lists.entry();
        agreed = false;
      }
    }
    if (!agreed) continue;
    const uint64_t id = FromBigEndian(std::string_view(target).substr(8));
    if (!visit(id)) return absl::OkStatus();
    target = target.substr(0, 8) + BigEndian(id - 1);
  }
}

}  // namespace

absl::Status ChangeIndex::Open() {
  EBB_ASSIGN_OR_RETURN(const auto said, store_.Get(Table::kDocuments, kCompleteKey));
  complete_ = said.has_value();
  return absl::OkStatus();
}

absl::Status ChangeIndex::Complete(const ReadChangeById& read_change) {
  if (complete_) return absl::OkStatus();
  constexpr size_t kEditsPerBatch = 1'000;
  std::vector<StoreEdit> batch;
  absl::Status fault;
  EBB_RETURN_IF_ERROR(
      store_.Scan(Table::kChanges, BigEndian(0), BigEndian(UINT64_MAX), /*descending=*/false,
                  [&](std::string_view key, std::string_view /*value*/) {
                    const absl::StatusOr<Change> change = read_change(FromBigEndian(key));
                    fault = change.status();
                    if (!fault.ok()) return false;
                    for (const std::string& entry : KeysOf(*change)) {
                      batch.push_back({Table::kChangeIndex, entry, std::string()});
                    }
                    if (batch.size() < kEditsPerBatch) return true;
                    fault = store_.Write(batch, /*sync=*/false);
                    batch.clear();
                    return fault.ok();
                  }));
  EBB_RETURN_IF_ERROR(fault);
  // Last, so that who is killed before begins again; what is there already stays the same.
  batch.push_back({Table::kDocuments, std::string(kCompleteKey), std::string(kCompleteValue)});
  EBB_RETURN_IF_ERROR(store_.Write(batch, /*sync=*/true));
  complete_ = true;
  return absl::OkStatus();
}

void ChangeIndex::AddEdits(const std::optional<Change>& before, const Change& after,
                           std::vector<StoreEdit>& batch) {
  std::set<std::string> keys = KeysOf(after);
  if (before) {
    for (const std::string& key : KeysOf(*before)) {
      if (keys.erase(key) == 0) batch.push_back({Table::kChangeIndex, key, std::nullopt});
    }
  }
  for (const std::string& key : keys) batch.push_back({Table::kChangeIndex, key, std::string()});
}

absl::Status ChangeIndex::Find(const std::string& node, const ChangeQuery& query,
                               const std::optional<Change>& before,
                               const std::function<bool(uint64_t id)>& visit) const {
  const std::string from = TimeKey(query.from_ms.value_or(0));
  std::string to = query.to_ms ? TimeKey(*query.to_ms) : std::string(kEntryBytes, '\xff');
  if (before) to = std::min(to, EntryOf(*before));
  if (from >= to) return absl::OkStatus();

  std::vector<Lists> named;
  const auto name = [&](char kind, const std::string& value) {
    named.emplace_back(store_, std::vector<std::string>{ListPrefix(kind, node, value)}, from, to);
  };
  if (!query.knob.empty()) name('k', query.knob);
  if (query.verdict) name('v', std::string(VerdictWord(*query.verdict)));
  if (!query.goal.empty() && complete_) name('g', query.goal);
  if (!query.context.empty() && complete_) name('c', query.context);
  if (!query.actor.empty()) {
    EBB_ASSIGN_OR_RETURN(std::vector<std::string> actors, ValuesOf(store_, 'a', node, query.actor));
    for (std::string& actor : actors) actor = ListPrefix('a', node, actor);
    named.emplace_back(store_, actors, from, to);
  }
  if (named.empty()) name('t', "");
  return Walk(named, to, visit);
}

}  // namespace ebb::engine
