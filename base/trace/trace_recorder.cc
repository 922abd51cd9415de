#include "base/trace/trace_recorder.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/trace/trace_content.h"

namespace ebb::trace {

absl::StatusOr<std::unique_ptr<TraceRecorder>> TraceRecorder::Create(const std::string& path,
                                                                     uint64_t volume_bytes,
                                                                     const std::string& note,
                                                                     Clock& clock) {
  EBB_ASSIGN_OR_RETURN(auto writer, TraceWriter::Create(path, {.volume_bytes = volume_bytes,
                                                               .recorded_wall_ms = clock.WallMs(),
                                                               .note = note}));
  return std::unique_ptr<TraceRecorder>(new TraceRecorder(std::move(writer), clock));
}

TraceRecorder::~TraceRecorder() { Close().IgnoreError(); }

void TraceRecorder::Record(TraceOp op, bool fua, uint64_t offset, uint64_t bytes,
                           std::span<const std::byte> data) {
  const uint64_t now_ns = clock_.MonotonicNs();
  TraceRecord record{.op = op, .fua = fua, .offset = offset, .bytes = bytes};
  if (op == TraceOp::kWrite) {
    WriteContent content = DescribeContent(offset, data);
    record.compressed_per_mille = content.compressed_per_mille;
    record.fingerprints = std::move(content.fingerprints);
  }
  std::lock_guard lock(mutex_);
  if (closed_ || !status_.ok()) return;
  if (!begun_) {
    begun_ = true;
    begin_ns_ = now_ns;
  }
  // Two threads may come here in the other order than they read the clock: a few microseconds.
  last_ns_ = std::max(last_ns_, now_ns > begin_ns_ ? now_ns - begin_ns_ : 0);
  record.time_ns = last_ns_;
  status_ = writer_->Append(std::move(record));
}

absl::Status TraceRecorder::Close() {
  std::lock_guard lock(mutex_);
  if (closed_) return status_;
  closed_ = true;
  if (status_.ok()) status_ = writer_->Close();
  return status_;
}

absl::Status TraceRecorder::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

uint64_t TraceRecorder::record_count() const {
  std::lock_guard lock(mutex_);
  return writer_->record_count();
}

}  // namespace ebb::trace
