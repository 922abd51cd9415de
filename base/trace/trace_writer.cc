#include "base/trace/trace_writer.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/status.h"
#include "base/trace/trace_chunk.h"
#include "fmt/format.h"

namespace ebb::trace {
namespace {

absl::Status CheckRecord(const TraceRecord& record, uint64_t last_ns) {
  if (record.time_ns < last_ns) return absl::InvalidArgumentError("its time runs backwards");
  if (record.offset + record.bytes < record.offset) {
    return absl::InvalidArgumentError("it reaches beyond 2^64 bytes");
  }
  const bool data = record.op == TraceOp::kWrite || record.op == TraceOp::kRead;
  if (data && record.bytes > kTraceDataBytesMax) {
    return absl::InvalidArgumentError("it moves more than 64 MiB");
  }
  const uint64_t blocks = data ? BlocksTouched(record.offset, record.bytes) : 0;
  if (!record.fingerprints.empty() && record.fingerprints.size() != blocks) {
    return absl::InvalidArgumentError(
        fmt::format("it has {} fingerprints for {} blocks", record.fingerprints.size(), blocks));
  }
  if (record.compressed_per_mille > (record.HasContent() ? 1000 : 0)) {
    return absl::InvalidArgumentError("its compressibility is out of range");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& path,
                                                                 const TraceHeader& header) {
  if (header.note.size() > kNoteBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("the note of a trace is limited to {} bytes", kNoteBytesMax));
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, fmt::format("cannot create trace {}", path));
  std::unique_ptr<TraceWriter> writer(new TraceWriter(path, fd));
  EBB_RETURN_IF_ERROR(writer->WriteAll(EncodeHeader(header)));
  return writer;
}

TraceWriter::~TraceWriter() {
  if (fd_ >= 0) close(fd_);
}

absl::Status TraceWriter::WriteAll(const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t put = write(fd_, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      failure_ = ErrnoStatus(errno, fmt::format("cannot write trace {}", path_));
      return failure_;
    }
    done += static_cast<size_t>(put);
  }
  return absl::OkStatus();
}

absl::Status TraceWriter::WriteChunk() {
  if (pending_.empty()) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(const std::string chunk, EncodeChunk(chunk_count_, pending_));
  ++chunk_count_;
  pending_.clear();
  pending_fingerprints_ = 0;
  return WriteAll(chunk);
}

absl::Status TraceWriter::Append(TraceRecord record) {
  EBB_RETURN_IF_ERROR(failure_);
  if (fd_ < 0) return absl::FailedPreconditionError(fmt::format("trace {} is closed", path_));
  if (const absl::Status status = CheckRecord(record, last_ns_); !status.ok()) {
    return Annotate(status, fmt::format("trace {}, record {}", path_, total_records_));
  }
  last_ns_ = record.time_ns;
  ++total_records_;
  pending_fingerprints_ += record.fingerprints.size();
  pending_.push_back(std::move(record));
  if (pending_.size() < kChunkRecords && pending_fingerprints_ < kChunkFingerprints) {
    return absl::OkStatus();
  }
  return WriteChunk();
}

absl::Status TraceWriter::Close() {
  EBB_RETURN_IF_ERROR(failure_);
  if (fd_ < 0) return absl::OkStatus();
  EBB_RETURN_IF_ERROR(WriteChunk());
  EBB_RETURN_IF_ERROR(WriteAll(EncodeEnd(chunk_count_, total_records_)));
  const int fd = std::exchange(fd_, -1);
  const bool synced = fsync(fd) == 0 || errno == EINVAL;  // EINVAL: a pipe or the like
  if (close(fd) == 0 && synced) return absl::OkStatus();
  return ErrnoStatus(errno, fmt::format("cannot finish trace {}", path_));
}

}  // namespace ebb::trace
