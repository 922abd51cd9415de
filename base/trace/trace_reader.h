// TraceReader reads a trace file as a stream, one chunk in memory at a time.
//
// Damage and truncation are found before any record of the chunk concerned is handed out, and the
// error names the file and the chunk. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/trace/trace_format.h"

namespace ebb::trace {

class TraceReader {
 public:
  // NotFound, InvalidArgument (no trace file, or of a newer version), DataLoss (damaged header).
  static absl::StatusOr<std::unique_ptr<TraceReader>> Open(const std::string& path);

  const TraceHeader& header() const { return header_; }
  // Fills `record` with the next one; false at the end of the trace. DataLoss when the file is
  // damaged or truncated; the records before that chunk have been handed out.
  absl::StatusOr<bool> Next(TraceRecord* record);
  // How far the file is read, in [0, 1]; negative when its size is not known (a pipe).
  double progress() const;

 private:
  TraceReader(std::string path, std::ifstream file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status ReadHeader();
  // Loads the next chunk into chunk_; ended_ when there is none.
  absl::Status ReadChunk();
  absl::Status FinishAt(uint32_t chunk_count, uint64_t total_records);
  // False when the file ends before `count` bytes.
  bool ReadBytes(size_t count, std::vector<std::byte>* out);
  absl::Status Truncated() const;
  absl::Status Damaged(const std::string& reason) const;

  const std::string path_;
  std::ifstream file_;
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
