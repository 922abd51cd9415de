// TraceWriter writes a trace file as a stream, in constant memory.
//
// Not thread-safe (TraceRecorder is). A file without Close has no end mark, and readers report it
// as truncated.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/trace/trace_format.h"

namespace ebb::trace {

class TraceWriter {
 public:
  // Creates or replaces the file at `path`.
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Create(const std::string& path,
                                                             const TraceHeader& header);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // InvalidArgument when the record breaks the rules of TraceRecord. After a failed write of the
  // file every later call fails too.
  absl::Status Append(TraceRecord record);
  // Writes the end mark and syncs the file. Nothing may follow.
  absl::Status Close();

  uint64_t record_count() const { return total_records_; }

 private:
  TraceWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  absl::Status WriteAll(const std::string& bytes);
  absl::Status WriteChunk();

  const std::string path_;
  int fd_;
  std::vector<TraceRecord> pending_;
  size_t pending_fingerprints_ = 0;
  uint64_t last_ns_ = 0;
  uint64_t total_records_ = 0;
  uint32_t chunk_count_ = 0;
  absl::Status failure_;
};

}  // namespace ebb::trace
