#include "env/trace/entry_source.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace ebb::env {
namespace {

using trace::TraceRecord;

constexpr size_t kSamplesMax = 10;
// So many broken entries end the reading at once when they are too large a share; fewer may stand
// in the first lines of a long file that is sound.
constexpr uint64_t kBrokenEarly = 1000;
constexpr size_t kLineBytesMax = 64 << 10;

void Reset(TraceRecord* record) {
  record->time_ns = 0;
  record->op = trace::TraceOp::kRead;
  record->fua = false;
  record->offset = 0;
  record->bytes = 0;
  record->compressed_per_mille = 0;
  record->fingerprints.clear();
  record->device = 0;
  record->latency_ns = 0;
}

class ParsedSource final : public TraceSource {
 public:
  ParsedSource(std::unique_ptr<ByteStream> stream, std::unique_ptr<EntryParser> parser,
               TraceTraits traits, const TraceOptions& options)
      : stream_(std::move(stream)),
        parser_(std::move(parser)),
        traits_(std::move(traits)),
        book_(stream_->name(), options.broken_share_max) {}

  absl::StatusOr<bool> Next(TraceRecord* record) override {
    EBB_RETURN_IF_ERROR(failure_);
    if (ended_) return false;
    absl::StatusOr<bool> more = Read(record);
    if (!more.ok()) failure_ = more.status();
    if (more.ok() && !*more) ended_ = true;
    return more;
  }
  const TraceTraits& traits() const override { return traits_; }
  const TraceCounts& counts() const override { return book_.counts(); }
  std::string warning() const override { return parser_->warning(); }
  double progress() const override { return stream_->progress(); }

 private:
  absl::StatusOr<bool> Read(TraceRecord* record) {
    Reset(record);
    if (const char* reason = nullptr; parser_->TakeFurther(record)) {
      if (book_.Take(record, &reason)) return true;
      EBB_RETURN_IF_ERROR(book_.CountBroken(line_, stream_->offset(), reason));
    }
    const size_t fixed_bytes = parser_->record_bytes();
    for (;;) {
      const uint64_t offset = stream_->offset();
      size_t skip_bytes = fixed_bytes;
      std::string_view entry;
      const char* reason = nullptr;
      if (fixed_bytes > 0) {
        EBB_ASSIGN_OR_RETURN(const std::string_view view, stream_->View(fixed_bytes));
        entry = view.substr(0, fixed_bytes);
        skip_bytes = entry.size();
        if (!entry.empty() && entry.size() < fixed_bytes) reason = "the file ends inside it";
      } else {
        EBB_ASSIGN_OR_RETURN(skip_bytes, NextLine(&entry, &reason));
      }
      if (skip_bytes == 0) {
        EBB_RETURN_IF_ERROR(book_.Finish());
        return false;
      }
      ++line_;
      Reset(record);
      Entry parsed = reason == nullptr ? parser_->Parse(entry, record) : Entry::Broken(reason);
      stream_->Consume(skip_bytes);
      if (parsed.kind == Entry::Kind::kRecord && book_.Take(record, &reason)) return true;
      if (parsed.kind == Entry::Kind::kOther) {
        book_.CountOther();
        continue;
      }
      if (parsed.kind == Entry::Kind::kMessage) {
        book_.CountMessage();
        continue;
      }
      if (parsed.kind == Entry::Kind::kFatal) return Fatal(offset, parsed.reason);
      if (parsed.kind == Entry::Kind::kBroken) reason = parsed.reason;
      EBB_RETURN_IF_ERROR(book_.CountBroken(line_, offset, reason));
    }
  }

  absl::Status Fatal(uint64_t offset, const char* reason) const {
    return absl::InvalidArgumentError(fmt::format("{}: {} {} at byte {}: {}", stream_->name(),
                                                  parser_->record_bytes() > 0 ? "record" : "line",
                                                  line_, offset, reason));
  }

  // The next line without its end, and how many bytes it has with it; 0 at the end of the file. Of
  // a line that is too long the bytes that were seen, with a `reason`.
  absl::StatusOr<size_t> NextLine(std::string_view* line, const char** reason) {
    EBB_ASSIGN_OR_RETURN(std::string_view view, stream_->View(1));
    size_t end = view.find('\n');
    if (end == view.npos) {
      EBB_ASSIGN_OR_RETURN(view, stream_->View(kLineBytesMax));
      end = view.find('\n');
    }
    if (end == view.npos && view.size() >= kLineBytesMax) {
      *reason = "the line is longer than 64 KiB";
      return SkipLongLine();
    }
    const size_t whole = end == view.npos ? view.size() : end + 1;
    *line = view.substr(0, end == view.npos ? view.size() : end);
    if (line->ends_with('\r')) line->remove_suffix(1);
    return whole;
  }

  // Consumes a line that has no end in sight, all but its last piece.
  absl::StatusOr<size_t> SkipLongLine() {
    for (;;) {
      EBB_ASSIGN_OR_RETURN(const std::string_view view, stream_->View(kLineBytesMax));
      const size_t end = view.find('\n');
      if (end != view.npos) return end + 1;
      if (view.size() < kLineBytesMax) return view.size();
      // One byte stays, so that there is a last piece when the file ends here.
      stream_->Consume(view.size() - 1);
    }
  }

  std::unique_ptr<ByteStream> stream_;
  std::unique_ptr<EntryParser> parser_;
  const TraceTraits traits_;
  EntryBook book_;
  uint64_t line_ = 0;
  bool ended_ = false;
  absl::Status failure_;
};

}  // namespace

bool EntryBook::Take(TraceRecord* record, const char** reason) {
  if (record->offset + record->bytes < record->offset) {
    *reason = "it reaches beyond 2^64 bytes";
    return false;
  }
  const uint64_t stamp_ns = record->time_ns;
  if (!begun_) counts_.first_stamp_ns = stamp_ns;
  if (begun_ && stamp_ns < last_stamp_ns_) ++counts_.back_steps;
  begun_ = true;
  last_stamp_ns_ = stamp_ns;
  const uint64_t begin_ns = counts_.first_stamp_ns;
  last_ns_ = std::max(last_ns_, stamp_ns > begin_ns ? stamp_ns - begin_ns : 0);
  record->time_ns = last_ns_;
  ++counts_.records;
  return true;
}

absl::Status EntryBook::TooManyBroken() const {
  const BrokenRecord& first = counts_.samples.front();
  return absl::InvalidArgumentError(fmt::format(
      "{}: {} of {} entries are broken, more than the {:.3g} % allowed; the first is number {} at "
      "byte {}: {}. Is it another format?",
      name_, counts_.broken, counts_.entries(), 100 * broken_share_max_, first.line, first.offset,
      first.reason));
}

absl::Status EntryBook::CountBroken(uint64_t line, uint64_t offset, const char* reason) {
  ++counts_.broken;
  if (counts_.samples.size() < kSamplesMax) {
    counts_.samples.push_back({.line = line, .offset = offset, .reason = reason});
  }
  if (counts_.broken < kBrokenEarly) return absl::OkStatus();
  return Finish();
}

absl::Status EntryBook::Finish() const {
  const double allowed = broken_share_max_ * static_cast<double>(counts_.entries());
  if (static_cast<double>(counts_.broken) > allowed) return TooManyBroken();
  return absl::OkStatus();
}

std::unique_ptr<TraceSource> MakeEntrySource(std::unique_ptr<ByteStream> stream,
                                             std::unique_ptr<EntryParser> parser,
                                             TraceTraits traits, const TraceOptions& options) {
  return std::make_unique<ParsedSource>(std::move(stream), std::move(parser), std::move(traits),
                                        options);
}

}  // namespace ebb::env
