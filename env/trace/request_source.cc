#include "env/trace/request_source.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/trace/trace_content.h"
#include "base/units.h"
#include "env/trace/record_pieces.h"
#include "fmt/format.h"

namespace ebb::env {

using trace::kTraceBlockBytes;
using trace::TraceOp;

absl::StatusOr<std::unique_ptr<RequestSource>> RequestSource::Open(const std::string& path,
                                                                   const BlockTarget& target,
                                                                   const Options& options) {
  std::unique_ptr<RequestSource> source(new RequestSource(path, target, options));
  EBB_RETURN_IF_ERROR(source->CheckSize());
  EBB_ASSIGN_OR_RETURN(source->reader_, source->OpenSource());
  return source;
}

absl::StatusOr<std::unique_ptr<TraceSource>> RequestSource::OpenSource() const {
  if (path_ == "-")
    return absl::InvalidArgumentError("a replay reads its trace twice: not from a pipe");
  return OpenTrace(path_, options_.format, options_.reading);
}

absl::Status RequestSource::CheckSize() {
  EBB_ASSIGN_OR_RETURN(const auto reader, OpenSource());
  for (;;) {
    EBB_ASSIGN_OR_RETURN(const bool more, reader->Next(&record_));
    if (!more) break;
    EBB_RETURN_IF_ERROR(layout_.Learn(record_));
  }
  EBB_ASSIGN_OR_RETURN(const uint64_t needed, layout_.Settle());
  if (needed <= target_.size_bytes()) return absl::OkStatus();
  fold_bytes_ = target_.size_bytes() / kTraceBlockBytes * kTraceBlockBytes;
  if (options_.fold_offsets && fold_bytes_ > 0) return absl::OkStatus();
  return absl::OutOfRangeError(fmt::format(
      "trace {} needs {} bytes ({}) but {} has only {} ({}): make it larger or fold the offsets",
      path_, needed, FormatBytes(needed), target_.Describe(), target_.size_bytes(),
      FormatBytes(target_.size_bytes())));
}

absl::Status RequestSource::BeginPass() {
  EBB_ASSIGN_OR_RETURN(reader_, OpenSource());
  pass_begin_ns_ += record_.time_ns;
  pass_requests_ = 0;
  return absl::OkStatus();
}

void RequestSource::MakeUnknownContent() {
  constexpr uint64_t kDoesNotShrink = 15;
  record_.fingerprints.resize(trace::BlocksTouched(record_.offset, record_.bytes));
  for (uint64_t& fingerprint : record_.fingerprints) {
    fingerprint = ++unknown_blocks_ << 4 | kDoesNotShrink;
  }
}

void RequestSource::FoldRecord() {
  if (record_.offset + record_.bytes <= fold_bytes_) return;
  ++counts_.folded;
  record_.offset %= fold_bytes_;
  if (record_.offset + record_.bytes > fold_bytes_) {
    // Across the end: move it down by whole blocks, and cut what is longer than the target.
    const uint64_t beyond = record_.offset + record_.bytes - fold_bytes_;
    const uint64_t blocks_down = std::min((beyond + kTraceBlockBytes - 1) / kTraceBlockBytes,
                                          record_.offset / kTraceBlockBytes);
    record_.offset -= blocks_down * kTraceBlockBytes;
    record_.bytes = std::min(record_.bytes, fold_bytes_ - record_.offset);
  }
  if (record_.HasContent()) {
    record_.fingerprints.resize(trace::BlocksTouched(record_.offset, record_.bytes));
  }
}

absl::StatusOr<bool> RequestSource::ReadRecord() {
  if (long_done_bytes_ == long_record_.bytes) {
    EBB_ASSIGN_OR_RETURN(const bool more, reader_->Next(&record_));
    const bool data = record_.op == TraceOp::kRead || record_.op == TraceOp::kWrite;
    if (!more || !data || record_.bytes <= trace::kTraceDataBytesMax) return more;
    long_record_ = record_;
    long_done_bytes_ = 0;
  }
  record_ = PieceOf(long_record_, long_done_bytes_, trace::kTraceDataBytesMax);
  long_done_bytes_ += record_.bytes;
  return true;
}

absl::StatusOr<bool> RequestSource::NextRecord() {
  for (;;) {
    EBB_ASSIGN_OR_RETURN(const bool more, ReadRecord());
    if (!more) {
      ++counts_.passes;
      if (!options_.repeat || pass_requests_ == 0) return false;
      EBB_RETURN_IF_ERROR(BeginPass());
      continue;
    }
    if (record_.bytes == 0 && record_.op != TraceOp::kFlush) continue;
    if (!target_.Supports(record_.op)) {
      ++counts_.skipped[record_.op];
      continue;
    }
    ++pass_requests_;
    record_.offset = layout_.Place(record_);
    if (fold_bytes_ > 0) FoldRecord();
    if (record_.op == TraceOp::kWrite) {
      if (!record_.HasContent()) MakeUnknownContent();
      write_data_.resize(record_.bytes);
      trace::MakeContent(record_.offset, record_.fingerprints, write_data_);
    }
    return true;
  }
}

absl::StatusOr<bool> RequestSource::Next(TargetRequest* request, AlignedBuffer* buffer,
                                         uint64_t* time_ns) {
  if (!record_pending_) {
    EBB_ASSIGN_OR_RETURN(const bool more, NextRecord());
    if (!more) return false;
    piece_done_bytes_ = 0;
  }
  const uint64_t bytes =
      std::min(record_.bytes - piece_done_bytes_, target_.RequestBytesMax(record_.op));
  request->op = record_.op;
  request->fua = record_.fua;
  request->offset = record_.offset + piece_done_bytes_;
  request->bytes = bytes;
  request->data = nullptr;
  if (record_.op == TraceOp::kRead || record_.op == TraceOp::kWrite) {
    if (buffer->size() < bytes) *buffer = AlignedBuffer(bytes);
    request->data = buffer->data();
  }
  if (record_.op == TraceOp::kWrite) {
    std::copy_n(write_data_.data() + piece_done_bytes_, bytes, buffer->data());
  }
  *time_ns = pass_begin_ns_ + record_.time_ns;
  piece_done_bytes_ += bytes;
  record_pending_ = piece_done_bytes_ < record_.bytes;
  return true;
}

}  // namespace ebb::env
