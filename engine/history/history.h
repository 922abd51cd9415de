// History: what happened and why, append-only, and the documents that let a sidecar go on after it
// was killed.
//
// Events are chained: each holds the SHA-256 of the previous event's hash and its own text, so an
// event that was altered, removed or moved shows (Verify). The newest state of every change is
// found by time, knob, verdict, actor, goal and context. The series of windows (see series_store.h)
// may lose its last minute in a power cut; everything else is durable when Write returned OK with
// `sync`. Thread-safe. Times are Unix milliseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/history/change_index.h"
#include "engine/history/ordered_store.h"
#include "engine/history/series_store.h"
#include "engine/tuner_service.h"

namespace ebb::engine {

struct EventDraft {
  int64_t wall_ms = 0;
  std::string node;       // empty: the daemon itself
  std::string kind;       // attached, goal, mode, paused, shift, node_event, ...
  std::string text;       // one sentence for people
  std::string data = {};  // a JSON object, or empty
};

struct HistoryEvent {
  uint64_t sequence = 0;
  // The event as one JSON object: sequence, wall_ms, node, kind, text, data.
  std::string json;
};

// One atomic write. A new change has id 0 and gets its id; documents without value are deleted.
struct HistoryWrite {
  std::vector<EventDraft> events = {};
  Change* change = nullptr;
  std::string change_event = {};  // the kind under which the change's new state is chained
  int64_t wall_ms = 0;            // of the change's event
  std::vector<std::pair<std::string, std::optional<std::string>>> documents = {};
  bool sync = true;
};

struct VerifyReport {
  uint64_t events = 0;
  uint64_t changes = 0;
  std::string head_hash;  // hex: note it elsewhere to prove later that nothing before it changed
};

struct HistoryConfig {
  SeriesRetention keep = {};
  bool read_only = false;  // nothing is written, also not what an old history lacks
};

class History final {
 public:
  // Reads the head of the chain; DataLoss when it does not fit the events.
  static absl::StatusOr<std::unique_ptr<History>> Open(std::unique_ptr<OrderedStore> store,
                                                       const HistoryConfig& config);

  absl::Status Write(const HistoryWrite& write);
  absl::Status AppendPoint(const std::string& node, const SeriesPoint& point) {
    return series_.Append(node, point);
  }

  // Newest first. An empty `node` asks for all nodes.
  absl::StatusOr<std::vector<Change>> Changes(const std::string& node, const ChangeQuery& query);
  absl::StatusOr<Change> GetChange(uint64_t id);
  // As TunerService::ReadSeries.
  absl::StatusOr<Series> ReadSeries(const std::string& node, int64_t from_ms, int64_t to_ms,
                                    size_t max_points) {
    return series_.Read(node, from_ms, to_ms, max_points);
  }
  absl::StatusOr<std::optional<std::string>> Document(const std::string& key);
  // Documents whose key starts with `prefix`, as (key, value).
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Documents(
      const std::string& prefix);
  // Visits events with sequence > `after`, oldest first, until `visit` returns false.
  absl::Status Events(uint64_t after, const std::function<bool(const HistoryEvent&)>& visit);
  // Recomputes the whole chain. DataLoss names the first event that does not fit. `noted_hash` is a
  // head_hash of before: when no event has it any more, what was noted was rewritten since.
  absl::StatusOr<VerifyReport> Verify(const std::string& noted_hash = "");

 private:
  History(std::unique_ptr<OrderedStore> store, const HistoryConfig& config)
      : store_(std::move(store)), series_(*store_, config.keep), index_(*store_) {}
  struct Head {
    uint64_t sequence = 0;
    std::string hash;
    uint64_t last_change_id = 0;
  };
  absl::Status ReadHead();
  void AddEvent(const EventDraft& draft, std::string_view data, Head& head,
                std::vector<StoreEdit>& batch) const;
  absl::Status AddChange(const HistoryWrite& write, Change& change, Head& head,
                         std::vector<StoreEdit>& batch);
  absl::StatusOr<Change> ReadChange(std::string_view pointer);

  std::unique_ptr<OrderedStore> store_;
  SeriesStore series_;
  ChangeIndex index_;
  std::mutex write_mutex_;
  Head head_;
};

// A history that ends with the process, for tests.
std::unique_ptr<History> MakeMemoryHistory();
absl::StatusOr<std::unique_ptr<History>> OpenHistory(const std::string& directory,
                                                     const HistoryConfig& config);
// To be read only; also while a daemon writes it: then what it holds at this moment.
absl::StatusOr<std::unique_ptr<History>> OpenHistoryForReading(const std::string& directory);

}  // namespace ebb::engine
