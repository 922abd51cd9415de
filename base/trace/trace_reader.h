// TraceReader reads a trace file as a stream, one chunk in memory at a time.
//
// Damage and truncation are found before any record of the chunk concerned is handed out, and the
// error names the file and the chunk. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/trace/trace_format.h"

namespace ebb::trace {

// Where a trace's bytes come from, front to back.
class TraceBytes {
 public:
  virtual ~TraceBytes() = default;
  // Fills `to` from its begin; fewer bytes than it has room for only at the end.
  virtual absl::StatusOr<size_t> Read(std::span<std::byte> to) = 0;
};

class TraceReader {
 public:
  // NotFound, InvalidArgument (no trace file, or of a newer version), DataLoss (damaged header).
  static absl::StatusOr<std::unique_ptr<TraceReader>> Open(const std::string& path);
  // Likewise over other bytes than a file's, called `name` in messages.
  static absl::StatusOr<std::unique_ptr<TraceReader>> Over(std::unique_ptr<TraceBytes> bytes,
                                                           const std::string& name);

  const TraceHeader& header() const { return header_; }
  // Fills `record` with the next one; false at the end of the trace. DataLoss when the file is
  // damaged or truncated; the records before that chunk have been handed out.
  absl::StatusOr<bool> Next(TraceRecord* record);
  // How far the file is read, in [0, 1]; negative when its size is not known (a pipe).
  double progress() const;

 private:
  TraceReader(std::string name, std::unique_ptr<TraceBytes> bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}

  absl::Status ReadHeader();
  // Loads the next chunk into chunk_; ended_ when there is none.
  absl::Status ReadChunk();
  absl::Status FinishAt(uint32_t chunk_count, uint64_t total_records);
  // Appends `count` bytes to `out`; false when the trace ends before.
  absl::StatusOr<bool> ReadBytes(size_t count, std::vector<std::byte>* out);
  absl::Status Truncated() const;
  absl::Status Damaged(const std::string& reason) const;

  const std::string name_;
  const std::unique_ptr<TraceBytes> bytes_;
  uint64_t file_bytes_ = 0;  // 0: not known
  uint64_t bytes_read_ = 0;
  TraceHeader header_;
  std::vector<TraceRecord> chunk_;
  size_t next_in_chunk_ = 0;
  uint32_t chunk_number_ = 0;  // of the chunk to be read next
  uint64_t records_read_ = 0;  // in whole chunks
  uint64_t last_ns_ = 0;
  bool ended_ = false;
  absl::Status failure_;
};

}  // namespace ebb::trace
