#include "base/trace/trace_reader.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "base/trace/trace_chunk.h"
#include "fmt/format.h"

namespace ebb::trace {

namespace {

class FileBytes final : public TraceBytes {
 public:
  FileBytes(std::ifstream file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  absl::StatusOr<size_t> Read(std::span<std::byte> to) override {
    file_.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()));
    if (file_.bad()) return absl::InternalError(fmt::format("cannot read trace {}", path_));
    return static_cast<size_t>(file_.gcount());
  }

 private:
  std::ifstream file_;
  const std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TraceReader>> TraceReader::Open(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return ErrnoStatus(errno == 0 ? ENOENT : errno, fmt::format("cannot open trace {}", path));
  EBB_ASSIGN_OR_RETURN(auto reader, Over(std::make_unique<FileBytes>(std::move(file), path), path));
  std::error_code no_regular_file;
  const uintmax_t file_bytes = std::filesystem::file_size(path, no_regular_file);
  if (!no_regular_file) reader->file_bytes_ = file_bytes;
  return reader;
}

absl::StatusOr<std::unique_ptr<TraceReader>> TraceReader::Over(std::unique_ptr<TraceBytes> bytes,
                                                               const std::string& name) {
  std::unique_ptr<TraceReader> reader(new TraceReader(name, std::move(bytes)));
  if (const absl::Status status = reader->ReadHeader(); !status.ok()) {
    return Annotate(status, fmt::format("trace {}", name));
  }
  return reader;
}

absl::StatusOr<bool> TraceReader::ReadBytes(size_t count, std::vector<std::byte>* out) {
  const size_t before = out->size();
  out->resize(before + count);
  EBB_ASSIGN_OR_RETURN(const size_t got, bytes_->Read(std::span(*out).subspan(before)));
  out->resize(before + got);
  bytes_read_ += got;
  return got == count;
}

double TraceReader::progress() const {
  if (file_bytes_ == 0) return -1;
  return static_cast<double>(bytes_read_) / static_cast<double>(file_bytes_);
}

absl::Status TraceReader::ReadHeader() {
  std::vector<std::byte> bytes;
  EBB_ASSIGN_OR_RETURN(const bool fixed, ReadBytes(kHeaderFixedBytes, &bytes));
  if (!fixed) {
    if (IsTraceMark(bytes))
      return absl::DataLossError("it ends inside its header: it is truncated");
    return absl::InvalidArgumentError("it is not an Ebb trace (.ebbt) file");
  }
  EBB_ASSIGN_OR_RETURN(const size_t total, HeaderBytes(bytes));
  EBB_ASSIGN_OR_RETURN(const bool whole, ReadBytes(total - kHeaderFixedBytes, &bytes));
  if (!whole) return absl::DataLossError("it ends inside its header: it is truncated");
  EBB_ASSIGN_OR_RETURN(header_, DecodeHeader(bytes));
  return absl::OkStatus();
}

absl::Status TraceReader::Truncated() const {
  return absl::DataLossError(
      fmt::format("trace {} is truncated: it ends in or before chunk {}", name_, chunk_number_));
}

absl::Status TraceReader::Damaged(const std::string& reason) const {
  return absl::DataLossError(
      fmt::format("trace {} is damaged at chunk {}: {}", name_, chunk_number_, reason));
}

absl::Status TraceReader::FinishAt(uint32_t chunk_count, uint64_t total_records) {
  if (chunk_count != chunk_number_ || total_records != records_read_) {
    return Damaged(
        fmt::format("the end mark counts {} chunks with {} records, the file has {} with {}",
                    chunk_count, total_records, chunk_number_, records_read_));
  }
  std::vector<std::byte> behind;
  EBB_ASSIGN_OR_RETURN(const bool more, ReadBytes(1, &behind));
  if (more) return Damaged("data follow the end mark");
  ended_ = true;
  return absl::OkStatus();
}

absl::Status TraceReader::ReadChunk() {
  std::vector<std::byte> frame_bytes;
  EBB_ASSIGN_OR_RETURN(const bool framed, ReadBytes(kFrameBytes, &frame_bytes));
  if (!framed) return Truncated();
  const absl::StatusOr<Frame> frame = DecodeFrame(frame_bytes);
  if (!frame.ok()) return Damaged(std::string(frame.status().message()));
  if (frame->end) {
    if (!FrameCrcMatches(*frame, frame_bytes, {})) return Damaged("wrong checksum of the end mark");
    return FinishAt(frame->number, frame->total_records);
  }
  std::vector<std::byte> payload;
  EBB_ASSIGN_OR_RETURN(const bool whole, ReadBytes(frame->stored_bytes, &payload));
  if (!whole) return Truncated();
  absl::StatusOr<std::vector<TraceRecord>> records = DecodeChunk(*frame, frame_bytes, payload);
  if (!records.ok()) return Damaged(std::string(records.status().message()));
  if (frame->number != chunk_number_) {
    return Damaged(fmt::format("it calls itself chunk {}", frame->number));
  }
  if (records->empty() || records->front().time_ns < last_ns_) {
    return Damaged("its time runs backwards");
  }
  chunk_ = *std::move(records);
  last_ns_ = chunk_.back().time_ns;
  next_in_chunk_ = 0;
  ++chunk_number_;
  records_read_ += chunk_.size();
  return absl::OkStatus();
}

absl::StatusOr<bool> TraceReader::Next(TraceRecord* record) {
  EBB_RETURN_IF_ERROR(failure_);
  if (next_in_chunk_ == chunk_.size() && !ended_) {
    failure_ = ReadChunk();
    EBB_RETURN_IF_ERROR(failure_);
  }
  if (ended_) return false;
  *record = std::move(chunk_[next_in_chunk_++]);
  return true;
}

}  // namespace ebb::trace
