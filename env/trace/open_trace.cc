#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/nearest.h"
#include "base/status.h"
#include "base/trace/trace_chunk.h"
#include "base/trace/trace_reader.h"
#include "env/trace/formats/blktrace.h"
#include "env/trace/formats/format_table.h"
#include "env/trace/open_stream.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace ebb::env {
namespace {

constexpr size_t kHeadBytes = 64 << 10;
// A format is likely when it understands most of so many first lines.
constexpr uint64_t kTrialEntries = 50;

bool IsOwn(std::string_view head) { return trace::IsTraceMark(std::as_bytes(std::span(head))); }

constexpr TraceFormat kOwnFormat = {
    .name = "ebbt", .help = "Ebb's own (docs/formats.md)", .has_content = true, .certain = IsOwn};

constexpr std::array kBlktraceFormats = {
    TraceFormat{.name = "blktrace",
                .help = "binary blktrace, all CPUs' files, Q events: what was asked for",
                .certain = IsBlktrace,
                .blktrace_event = kBlktraceQueue},
    TraceFormat{.name = "blktrace-d",
                .help = "binary blktrace, D events: what went to the device, merged",
                .blktrace_event = kBlktraceIssue},
};

const std::vector<const TraceFormat*>& AllFormats() {
  static const auto* const kAll = [] {
    auto* all = new std::vector<const TraceFormat*>{&kOwnFormat};
    for (const auto formats :
         {VscsiFormats(), ServerFormats(), SimulatorFormats(),
          std::span<const TraceFormat>(kBlktraceFormats), BlkparseFormats(), IologFormats(),
          FiuFormats(), CloudFormats(), CacheFormats(), HfplayerFormats()}) {
      for (const TraceFormat& format : formats) all->push_back(&format);
    }
    return all;
  }();
  return *kAll;
}

// What Ebb's own reader takes, from a stream.
class StreamBytes final : public trace::TraceBytes {
 public:
  explicit StreamBytes(ByteStream& stream) : stream_(stream) {}

  absl::StatusOr<size_t> Read(std::span<std::byte> to) override {
    size_t done = 0;
    while (done < to.size()) {
      EBB_ASSIGN_OR_RETURN(const std::string_view view, stream_.View(1));
      if (view.empty()) break;
      const size_t bytes = std::min(view.size(), to.size() - done);
      std::memcpy(to.data() + done, view.data(), bytes);
      stream_.Consume(bytes);
      done += bytes;
    }
    return done;
  }

 private:
  ByteStream& stream_;
};

// Ebb's own format: the reader of base/trace does it all.
class OwnSource final : public TraceSource {
 public:
  static absl::StatusOr<std::unique_ptr<TraceSource>> Open(std::unique_ptr<ByteStream> stream) {
    EBB_ASSIGN_OR_RETURN(auto reader, trace::TraceReader::Over(
                                          std::make_unique<StreamBytes>(*stream), stream->name()));
    return std::make_unique<OwnSource>(std::move(stream), std::move(reader));
  }
  OwnSource(std::unique_ptr<ByteStream> stream, std::unique_ptr<trace::TraceReader> reader)
      : stream_(std::move(stream)), reader_(std::move(reader)) {
    traits_.format = kOwnFormat.name;
    traits_.has_content = true;
    traits_.has_compressibility = true;
    traits_.volume_bytes = reader_->header().volume_bytes;
  }

  absl::StatusOr<bool> Next(trace::TraceRecord* record) override {
    EBB_ASSIGN_OR_RETURN(const bool more, reader_->Next(record));
    counts_.records += more ? 1 : 0;
    return more;
  }
  const TraceTraits& traits() const override { return traits_; }
  const TraceCounts& counts() const override { return counts_; }
  double progress() const override { return stream_->progress(); }

 private:
  std::unique_ptr<ByteStream> stream_;  // read by reader_
  std::unique_ptr<trace::TraceReader> reader_;
  TraceTraits traits_;
  TraceCounts counts_;
};

// Whether `format` understands the first lines: nothing broken among the entries that it sees, and
// at least one request.
bool Likely(const TraceFormat& format, std::string_view head, bool whole_file) {
  if (format.make_parser == nullptr) return false;
  // The last line of the head may be cut.
  if (!whole_file) head = head.substr(0, head.rfind('\n') + 1);
  auto stream = ByteStream::FromMemory(std::string(head), "");
  if (!stream.ok()) return false;
  auto source =
      MakeEntrySource(*std::move(stream), format.make_parser({}), {}, {.broken_share_max = 0.1});
  trace::TraceRecord record;
  while (source->counts().entries() < kTrialEntries) {
    const absl::StatusOr<bool> more = source->Next(&record);
    if (!more.ok()) return false;
    if (!*more) break;
  }
  return source->counts().records > 0 && source->counts().broken * 10 <= source->counts().entries();
}

}  // namespace

absl::StatusOr<const TraceFormat*> FindFormat(std::string_view name) {
  // Names under which people know a format that has another here.
  if (name == "ssdsim") name = "mqsim";
  if (name == "blkparseD") name = "blkparse-d";
  std::vector<std::string_view> names;
  for (const TraceFormat* format : AllFormats()) {
    if (format->name == name) return format;
    names.push_back(format->name);
  }
  const std::string_view near = NearestWord(name, names);
  return absl::InvalidArgumentError(fmt::format(
      "there is no trace format '{}'{}; there are {}", name,
      near.empty() ? "" : fmt::format(", did you mean '{}'?", near), fmt::join(names, ", ")));
}

absl::StatusOr<const TraceFormat*> DetectFormat(ByteStream& stream) {
  EBB_ASSIGN_OR_RETURN(const std::string_view head, stream.View(kHeadBytes));
  if (head.empty()) return absl::InvalidArgumentError(fmt::format("{} is empty", stream.name()));
  std::vector<std::string_view> likely;
  for (const TraceFormat* format : AllFormats()) {
    if (format->certain != nullptr && format->certain(head)) return format;
    if (Likely(*format, head, head.size() < kHeadBytes)) likely.push_back(format->name);
  }
  const std::string hint =
      likely.empty()
          ? "no format understands its first lines"
          : fmt::format("its first lines would make sense as {}, and only you know which",
                        fmt::join(likely, ", "));
  return absl::InvalidArgumentError(
      fmt::format("{}: the format is not certain: {}; name it", stream.name(), hint));
}

absl::StatusOr<std::unique_ptr<TraceSource>> OpenStreams(
    std::vector<std::unique_ptr<ByteStream>> streams, const TraceFormat& format,
    const TraceOptions& options) {
  TraceTraits traits{.format = std::string(format.name),
                     .has_times = format.has_times,
                     .has_ops = format.has_ops,
                     .has_content = format.has_content,
                     .has_latency = format.has_latency};
  if (&format == &kOwnFormat) return OwnSource::Open(std::move(streams.front()));
  if (format.blktrace_event != 0) {
    return MakeBlktraceSource(std::move(streams), format.blktrace_event, std::move(traits),
                              options);
  }
  return MakeEntrySource(std::move(streams.front()), format.make_parser(options), std::move(traits),
                         options);
}

absl::StatusOr<std::unique_ptr<TraceSource>> OpenTrace(const std::string& path,
                                                       std::string_view format_name,
                                                       const TraceOptions& options) {
  const TraceFormat* format = nullptr;
  if (!format_name.empty()) {
    EBB_ASSIGN_OR_RETURN(format, FindFormat(format_name));
  }
  EBB_ASSIGN_OR_RETURN(const std::vector<std::string> files, FindBlktraceFiles(path));
  EBB_ASSIGN_OR_RETURN(auto stream, ByteStream::Open(files.front()));
  if (format == nullptr) {
    EBB_ASSIGN_OR_RETURN(format, DetectFormat(*stream));
  }
  std::vector<std::unique_ptr<ByteStream>> streams;
  streams.push_back(std::move(stream));
  if (format->blktrace_event != 0) {
    for (size_t i = 1; i < files.size(); ++i) {
      EBB_ASSIGN_OR_RETURN(stream, ByteStream::Open(files[i]));
      streams.push_back(std::move(stream));
    }
  }
  return OpenStreams(std::move(streams), *format, options);
}

std::vector<TraceFormatInfo> TraceFormats() {
  std::vector<TraceFormatInfo> infos;
  for (const TraceFormat* format : AllFormats()) infos.push_back({format->name, format->help});
  return infos;
}

}  // namespace ebb::env
