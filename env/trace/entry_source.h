// EntrySource makes a TraceSource of a parser that understands one entry: a line or a fixed record.
//
// The parser knows the format; everything formats have in common is here: finding the entries,
// counting and locating broken ones, giving up when they are too many, times from the first record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "env/trace/byte_stream.h"
#include "env/trace/trace_source.h"

namespace ebb::env {

// What a parser made of an entry.
struct Entry {
  enum class Kind : uint8_t { kRecord, kOther, kMessage, kBroken, kFatal };

  static Entry Record() { return {Kind::kRecord, ""}; }
  // An event that is not a request of the kind asked for: a completion, another command.
  static Entry Other() { return {Kind::kOther, ""}; }
  // No event at all: a header, a summary, an empty line.
  static Entry Message() { return {Kind::kMessage, ""}; }
  // `reason` is a literal.
  static Entry Broken(const char* reason) { return {Kind::kBroken, reason}; }
  // Nothing after it could be trusted: the reading ends with an error that names the entry.
  static Entry Fatal(const char* reason) { return {Kind::kFatal, reason}; }

  Kind kind;
  const char* reason;
};

class EntryParser {
 public:
  virtual ~EntryParser() = default;

  // 0: entries are lines. Else every entry has so many bytes.
  virtual size_t record_bytes() const { return 0; }
  // Fills `record`, whose fields are at their defaults (fingerprints empty), when it returns
  // kRecord; time_ns is absolute, on any clock. A line comes without its end.
  virtual Entry Parse(std::string_view entry, trace::TraceRecord* record) = 0;
  // Likewise fills `record` with a further request of the entry that Parse saw last; false when
  // there is none (any more).
  virtual bool TakeFurther(trace::TraceRecord* /*record*/) { return false; }
  // What the reader should be told about how the entries were understood; empty: nothing.
  virtual std::string warning() const { return {}; }
};

std::unique_ptr<TraceSource> MakeEntrySource(std::unique_ptr<ByteStream> stream,
                                             std::unique_ptr<EntryParser> parser,
                                             TraceTraits traits, const TraceOptions& options);

// What sources of every kind do with what they read: counts, time since the first record.
class EntryBook {
 public:
  EntryBook(std::string name, double broken_share_max)
      : name_(std::move(name)), broken_share_max_(broken_share_max) {}

  // Counts `record` and makes its time relative; false when it breaks a rule that all formats
  // share (then `reason` says which).
  bool Take(trace::TraceRecord* record, const char** reason);
  void CountOther() { ++counts_.other_events; }
  void CountMessage() { ++counts_.messages; }
  // An error when that is one too many.
  absl::Status CountBroken(uint64_t line, uint64_t offset, const char* reason);
  // The end: an error when too many were broken, or nothing was found in a file that is not empty.
  absl::Status Finish() const;

  const TraceCounts& counts() const { return counts_; }

 private:
  absl::Status TooManyBroken() const;

  const std::string name_;
  const double broken_share_max_;
  TraceCounts counts_;
  bool begun_ = false;
  uint64_t last_ns_ = 0;        // relative
  uint64_t last_stamp_ns_ = 0;  // as recorded
};

}  // namespace ebb::env
