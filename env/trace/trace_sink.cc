#include "env/trace/trace_sink.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "base/trace/trace_writer.h"
#include "base/units.h"
#include "env/trace/record_pieces.h"
#include "fmt/format.h"

namespace ebb::env {
namespace {

using trace::TraceOp;
using trace::TraceRecord;

// fio reads lengths with 32 bits.
constexpr uint64_t kIologBytesMax = kGiB;
constexpr size_t kIologFilesMax = 65'536;

// What both kinds do with a record: leave out what moves nothing, cut what is too long.
class CuttingSink : public TraceSink {
 public:
  absl::Status Append(const TraceRecord& record) final {
    ++counts_.records;
    if (record.bytes == 0 && record.op != TraceOp::kFlush) {
      ++counts_.left_out;
      return absl::OkStatus();
    }
    counts_.needed_bytes = std::max(counts_.needed_bytes, record.offset + record.bytes);
    const uint64_t bytes_max = RequestBytesMax(record.op);
    if (record.bytes <= bytes_max) return Put(record);
    ++counts_.cut;
    for (uint64_t done = 0; done < record.bytes;) {
      const TraceRecord piece = PieceOf(record, done, bytes_max);
      EBB_RETURN_IF_ERROR(Put(piece));
      done += piece.bytes;
    }
    return absl::OkStatus();
  }
  const SinkCounts& counts() const final { return counts_; }

 protected:
  // A whole number of blocks.
  virtual uint64_t RequestBytesMax(TraceOp op) const = 0;
  virtual absl::Status Put(const TraceRecord& record) = 0;
  void CountChanged() { ++counts_.changed; }

 private:
  SinkCounts counts_;
};

class OwnSink final : public CuttingSink {
 public:
  explicit OwnSink(std::unique_ptr<trace::TraceWriter> writer) : writer_(std::move(writer)) {}

  absl::Status Close() override { return writer_->Close(); }

 private:
  uint64_t RequestBytesMax(TraceOp op) const override {
    const bool data = op == TraceOp::kRead || op == TraceOp::kWrite;
    return data ? trace::kTraceDataBytesMax : ~uint64_t{0};
  }
  absl::Status Put(const TraceRecord& record) override { return writer_->Append(record); }

  std::unique_ptr<trace::TraceWriter> writer_;
};

class IologSink final : public CuttingSink {
 public:
  IologSink(std::FILE* file, std::string path, std::string file_name)
      : file_(file), path_(std::move(path)), file_name_(std::move(file_name)) {}
  ~IologSink() override {
    if (file_ != nullptr) std::fclose(file_);
  }
  IologSink(const IologSink&) = delete;
  IologSink& operator=(const IologSink&) = delete;

  absl::Status Begin() { return Write("fio version 3 iolog\n"); }

  absl::Status Close() override {
    if (file_ == nullptr) return absl::OkStatus();
    for (size_t number = 0; number < files_.size(); ++number) {
      EBB_RETURN_IF_ERROR(Write(fmt::format("{} {} close\n", last_us_, NameOf(number))));
    }
    std::FILE* file = std::exchange(file_, nullptr);
    if (std::fclose(file) != 0) return Failed();
    return absl::OkStatus();
  }

 private:
  uint64_t RequestBytesMax(TraceOp /*op*/) const override { return kIologBytesMax; }

  absl::Status Put(const TraceRecord& record) override {
    // fio loses the delay after a stamp of 0: it means "no stamp yet" there.
    last_us_ = 1 + record.time_ns / kNsPerUs;
    const auto [entry, is_new] = files_.try_emplace(record.device, files_.size());
    if (is_new && files_.size() > kIologFilesMax) {
      return absl::ResourceExhaustedError("an iolog of more than 65536 files");
    }
    const std::string name = NameOf(entry->second);
    if (is_new) {
      EBB_RETURN_IF_ERROR(Write(fmt::format("{0} {1} add\n{0} {1} open\n", last_us_, name)));
    }
    if (record.op == TraceOp::kFlush) return Write(fmt::format("{} {} sync 0 0\n", last_us_, name));
    const char* action = record.op == TraceOp::kRead   ? "read"
                         : record.op == TraceOp::kTrim ? "trim"
                                                       : "write";
    EBB_RETURN_IF_ERROR(Write(
        fmt::format("{} {} {} {} {}\n", last_us_, name, action, record.offset, record.bytes)));
    if (record.op == TraceOp::kWriteZeroes || record.fua) CountChanged();
    if (!record.fua) return absl::OkStatus();
    return Write(fmt::format("{} {} datasync 0 0\n", last_us_, name));
  }

  std::string NameOf(size_t number) const {
    return number == 0 ? file_name_ : fmt::format("{}.{}", file_name_, number);
  }
  absl::Status Write(const std::string& text) {
    if (file_ == nullptr) return absl::FailedPreconditionError(fmt::format("{} is closed", path_));
    if (std::fwrite(text.data(), 1, text.size(), file_) == text.size()) return absl::OkStatus();
    return Failed();
  }
  absl::Status Failed() const { return ErrnoStatus(errno, fmt::format("cannot write {}", path_)); }

  std::FILE* file_;
  const std::string path_;
  const std::string file_name_;
  uint64_t last_us_ = 1;
  absl::flat_hash_map<uint64_t, size_t> files_;  // number by device
};

}  // namespace

absl::StatusOr<std::unique_ptr<TraceSink>> OpenTraceSink(const std::string& path,
                                                         std::string_view format,
                                                         const SinkOptions& options) {
  if (format == "ebbt") {
    EBB_ASSIGN_OR_RETURN(auto writer,
                         trace::TraceWriter::Create(path, {.volume_bytes = options.volume_bytes,
                                                           .recorded_wall_ms = 0,
                                                           .note = options.note}));
    return std::make_unique<OwnSink>(std::move(writer));
  }
  if (format == "iolog") {
    if (options.file_name.empty() ||
        options.file_name.find_first_of(" \t\n") != std::string::npos) {
      return absl::InvalidArgumentError("fio cannot read an iolog whose file's name has blanks");
    }
    std::FILE* file = std::fopen(path.c_str(), "we");
    if (file == nullptr) return ErrnoStatus(errno, fmt::format("cannot create {}", path));
    auto sink = std::make_unique<IologSink>(file, path, options.file_name);
    EBB_RETURN_IF_ERROR(sink->Begin());
    return sink;
  }
  return absl::InvalidArgumentError(
      fmt::format("traces are written as ebbt or iolog, not as '{}'", format));
}

absl::Status CopyTrace(TraceSource& source, TraceSink& sink,
                       const std::function<void(const TraceSource&)>& on_progress) {
  constexpr uint64_t kProgressRecords = 1 << 16;
  TraceRecord record;
  for (uint64_t count = 1;; ++count) {
    EBB_ASSIGN_OR_RETURN(const bool more, source.Next(&record));
    if (!more) return sink.Close();
    EBB_RETURN_IF_ERROR(sink.Append(record));
    if (on_progress && count % kProgressRecords == 0) on_progress(source);
  }
}

}  // namespace ebb::env
