#include "storage-backend/control/event_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/durable_file.h"

namespace ebb::storage {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 13> kKindNames = {
    "started", "applied", "committed", "reverted", "lease_expired", "tripped", "foreign_change",
    "drain",   "error",   "damage",    "stuck",    "recovered",     "device"};
constexpr std::string_view kLineHead = R"({"crc":")";
constexpr std::string_view kLineMiddle = R"(","event":)";
constexpr size_t kCrcDigits = 8;

std::string LineOf(const NodeEvent& event) {
  Json json = {{"number", event.number},
               {"wall_ms", event.wall_ms},
               {"kind", EventKindName(event.kind)},
               {"text", event.text},
               {"setting_version", event.setting_version},
               {"lease", event.lease}};
  if (event.reading) {
    json["reading"] = {{"condition", event.reading->condition},
                       {"value", event.reading->value},
                       {"limit", event.reading->limit}};
  }
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return fmt::format("{}{}{}{}}}\n", kLineHead, Crc32cHex(text), kLineMiddle, text);
}

// The event of a whole line without its end; nullopt when the line is damaged.
std::optional<NodeEvent> EventOf(std::string_view line) {
  const size_t overhead = kLineHead.size() + kCrcDigits + kLineMiddle.size();
  if (line.size() <= overhead || line.substr(0, kLineHead.size()) != kLineHead) return std::nullopt;
  const std::string_view crc = line.substr(kLineHead.size(), kCrcDigits);
  const std::string_view text = line.substr(overhead, line.size() - overhead - 1);
  if (Crc32cHex(text) != crc) return std::nullopt;
  try {
    const Json json = Json::parse(text.begin(), text.end());
    NodeEvent event;
    event.number = json.at("number");
    event.wall_ms = json.at("wall_ms");
    event.text = json.at("text");
    event.setting_version = json.at("setting_version");
    event.lease = json.at("lease");
    const std::string kind_name = json.at("kind");
    const auto kind = std::find(kKindNames.begin(), kKindNames.end(), kind_name);
    if (kind == kKindNames.end()) return std::nullopt;
    event.kind = static_cast<NodeEvent::Kind>(kind - kKindNames.begin());
    if (json.contains("reading")) {
      const Json& reading = json["reading"];
      event.reading =
          TripReading{reading.at("condition"), reading.at("value"), reading.at("limit")};
    }
    return event;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string_view EventKindName(NodeEvent::Kind kind) {
  return kKindNames[static_cast<size_t>(kind)];
}

absl::StatusOr<std::unique_ptr<EventLog>> EventLog::Open(const std::string& path) {
  auto log = std::unique_ptr<EventLog>(new EventLog(path));
  EBB_RETURN_IF_ERROR(log->Load());
  return log;
}

absl::Status EventLog::Load() {
  const absl::StatusOr<std::string> content = ReadWholeFile(path_);
  if (!content.ok() && !absl::IsNotFound(content.status())) return content.status();
  const std::string_view text = content.ok() ? std::string_view(*content) : std::string_view();
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', begin)) {
    std::optional<NodeEvent> event = EventOf(text.substr(begin, end - begin));
    // A number that does not ascend is damage too, whatever its CRC says.
    if (event && event->number >= next_number_) {
      next_number_ = event->number + 1;
      events_.push_back(*std::move(event));
      if (events_.size() > kEventsKept) events_.pop_front();
    } else {
      ++damaged_lines_;
    }
    ++lines_in_file_;
    begin = end + 1;
  }
  const bool torn = begin != text.size();
  if (torn || damaged_lines_ > 0 || !content.ok()) return Rewrite();
  file_ = ScopedFd(open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  return file_.valid() ? absl::OkStatus() : ErrnoStatus(errno, path_);
}

absl::Status EventLog::Rewrite() {
  std::string content;
  for (const NodeEvent& event : events_) content += LineOf(event);
  EBB_RETURN_IF_ERROR(WriteFileDurably(path_, content));
  file_ = ScopedFd(open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file_.valid()) return ErrnoStatus(errno, path_);
  lines_in_file_ = events_.size();
  return absl::OkStatus();
}

absl::Status EventLog::Append(NodeEvent event, bool durable) {
  const std::lock_guard lock(mutex_);
  event.number = next_number_++;
  const std::string line = LineOf(event);
  events_.push_back(std::move(event));
  if (events_.size() > kEventsKept) events_.pop_front();
  if (!file_.valid() || lines_in_file_ >= 2 * kEventsKept) return Rewrite();

  const ssize_t written = write(file_.get(), line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) {
    const int error_number = written < 0 ? errno : ENOSPC;
    // Whatever part arrived must not run into the next line: write all of it anew next time.
    file_.Reset();
    return ErrnoStatus(error_number, fmt::format("cannot write {}", path_));
  }
  ++lines_in_file_;
  if (durable && fdatasync(file_.get()) != 0) {
    return ErrnoStatus(errno, fmt::format("cannot sync {}", path_));
  }
  return absl::OkStatus();
}

std::vector<NodeEvent> EventLog::After(uint64_t after, size_t max) const {
  const std::lock_guard lock(mutex_);
  auto first = std::upper_bound(
      events_.begin(), events_.end(), after,
      [](uint64_t number, const NodeEvent& event) { return number < event.number; });
  const auto count = std::min<size_t>(max, static_cast<size_t>(events_.end() - first));
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

uint64_t EventLog::last_number() const {
  const std::lock_guard lock(mutex_);
  return next_number_ - 1;
}

}  // namespace ebb::storage
