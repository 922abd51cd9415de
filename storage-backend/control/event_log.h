// EventLog keeps what the node did or saw by itself: the last 10,000 events, across restarts.
//
// An append-only file of JSON lines, each with a CRC32C over its event: {"crc":"…","event":{…}}.
// A line that kill -9 tore off at the end is cut away at the next start; a damaged line elsewhere
// is left out and counted. The file is rewritten to the kept events when it has twice as many.
// Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/control/scoped_fd.h"
#include "storage-backend/control/trip_wire.h"

namespace ebb::storage {

struct NodeEvent {
  enum class Kind : uint8_t {
    kStarted,
    kApplied,
    kCommitted,
    kReverted,
    kLeaseExpired,
    kTripped,
    kForeignChange,
    kDrain,
    kError,
    kDamage,
    kStuck,
    kRecovered,
    kDevice
  };
  uint64_t number = 0;  // ascending without gaps, from 1
  int64_t wall_ms = 0;
  Kind kind = Kind::kStarted;
  std::string text;
  uint64_t setting_version = 0;
  std::string lease;                   // empty when it concerns none
  std::optional<TripReading> reading;  // of kTripped
};

// "lease_expired": the wire form.
std::string_view EventKindName(NodeEvent::Kind kind);

class EventLog {
 public:
  static constexpr size_t kEventsKept = 10'000;

  // Opens or creates `path`.
  static absl::StatusOr<std::unique_ptr<EventLog>> Open(const std::string& path);

  // Gives `event` its number. In the file when OK, and on the disk too when `durable`; otherwise it
  // is kept in memory alone.
  absl::Status Append(NodeEvent event, bool durable);
  // Kept events with a number above `after`, oldest first, `max` at most.
  std::vector<NodeEvent> After(uint64_t after, size_t max) const;
  uint64_t last_number() const;
  // Damaged lines that Open left out.
  size_t damaged_lines() const { return damaged_lines_; }

 private:
  explicit EventLog(std::string path) : path_(std::move(path)) {}

  absl::Status Load();
  absl::Status Rewrite();

  const std::string path_;
  mutable std::mutex mutex_;
  ScopedFd file_;
  std::deque<NodeEvent> events_;
  uint64_t next_number_ = 1;
  size_t lines_in_file_ = 0;
  size_t damaged_lines_ = 0;
};

}  // namespace ebb::storage
