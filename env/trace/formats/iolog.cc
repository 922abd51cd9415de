// fio iolog, version 2 (no times but `wait`) and 3 (each line begins with us since the job began).
//
//   fio version 3 iolog
//   [time_us] file add|open|close
//   [time_us] file read|write|trim|sync|datasync|wait offset length
//
// A file's name may hold blanks here, and lengths have 64 bits; in fio neither is so.
#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "base/units.h"
#include "env/trace/formats/fields.h"
#include "env/trace/formats/format_table.h"

namespace ebb::env {
namespace {

using trace::TraceOp;
using trace::TraceRecord;

constexpr std::string_view kVersion2 = "fio version 2 iolog";
constexpr std::string_view kVersion3 = "fio version 3 iolog";
constexpr size_t kFilesMax = 65'536;
// fio's HOWTO: "everything below 100 is discarded".
constexpr uint64_t kWaitUsMin = 100;

// `name action`, or `name action offset length`; the name is what stands before.
struct Line {
  std::string_view name;
  std::string_view action;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool has_place = false;
};

std::string_view TakeLastWord(std::string_view* text) {
  *text = TrimBlanks(*text);
  const size_t blank = text->find_last_of(" \t");
  const size_t begin = blank == text->npos ? 0 : blank + 1;
  const std::string_view word = text->substr(begin);
  text->remove_suffix(text->size() - begin);
  return word;
}

Line SplitLine(std::string_view text) {
  Line line;
  std::string_view rest = text;
  const std::string_view last = TakeLastWord(&rest);
  std::string_view before = rest;
  const std::string_view second = TakeLastWord(&before);
  line.has_place = ParseNumber(last, &line.length) && ParseNumber(second, &line.offset);
  line.action = line.has_place ? TakeLastWord(&before) : last;
  line.name = TrimBlanks(line.has_place ? before : rest);
  return line;
}

class IologParser final : public EntryParser {
 public:
  explicit IologParser(bool wait_is_ms_since_start)
      : wait_is_ms_since_start_(wait_is_ms_since_start) {}

  Entry Parse(std::string_view text, TraceRecord* record) override {
    if (version_ == 0) return ReadVersion(text);
    if (TrimBlanks(text).empty()) return Entry::Message();
    if (version_ == 3) {
      std::array<std::string_view, 1> stamp;
      SplitBlanks(text, stamp);
      if (!ParseTime(stamp[0], kNsPerUs, &now_ns_)) return Entry::Broken("it begins with no time");
      text.remove_prefix(static_cast<size_t>(stamp[0].data() - text.data()) + stamp[0].size());
    }
    const Line line = SplitLine(text);
    if (line.name.empty()) return Entry::Broken("it is no file and action");
    record->time_ns = now_ns_;
    return line.has_place ? ParseRequest(line, record) : ParseFileAction(line);
  }

  std::string warning() const override {
    if (!waited_) return {};
    return wait_is_ms_since_start_
               ? "iolog: 'wait' is taken as milliseconds since the start, as fio's code does"
               : "iolog: 'wait' is taken as microseconds since the wait before, as fio's HOWTO "
                 "says; its code takes milliseconds since the start";
  }

 private:
  Entry ReadVersion(std::string_view text) {
    text = TrimBlanks(text);
    if (text == kVersion2) version_ = 2;
    if (text == kVersion3) version_ = 3;
    if (version_ != 0) return Entry::Message();
    // The magic number in both byte orders, but for the version in its lowest byte.
    if (text.substr(0, 4).ends_with("tae") || text.starts_with("eat")) {
      return Entry::Fatal("this is a binary blktrace file, not an iolog");
    }
    if (text.find(',') != text.npos) {
      return Entry::Fatal(
          "iolog version 1 is not supported: write the log again with fio 1.20 or newer");
    }
    return Entry::Fatal("an iolog begins with 'fio version 2 iolog' or 'fio version 3 iolog'");
  }

  Entry ParseFileAction(const Line& line) {
    if (line.action == "add") {
      if (files_.size() >= kFilesMax) return Entry::Fatal("it names more than 65536 files");
      files_.try_emplace(std::string(line.name), File{.number = files_.size()});
      return Entry::Message();
    }
    if (line.action != "open" && line.action != "close") {
      return Entry::Broken("the action is not known");
    }
    const auto file = files_.find(line.name);
    if (file == files_.end()) return Entry::Fatal("the file was not added before");
    file->second.open = line.action == "open";
    return Entry::Message();
  }

  Entry ParseRequest(const Line& line, TraceRecord* record) {
    if (line.action == "wait") return Wait(line.offset);
    if (line.action == "sync" || line.action == "datasync") {
      record->op = TraceOp::kFlush;  // its offset and length mean nothing
    } else if (line.action == "read" || line.action == "write" || line.action == "trim") {
      record->op = line.action == "read"    ? TraceOp::kRead
                   : line.action == "write" ? TraceOp::kWrite
                                            : TraceOp::kTrim;
      record->offset = line.offset;
      record->bytes = line.length;
    } else {
      return Entry::Broken("the action is not known");
    }
    const auto file = files_.find(line.name);
    if (file == files_.end() || !file->second.open) {
      return Entry::Fatal("a request before the file was added and opened");
    }
    record->device = file->second.number;
    return Entry::Record();
  }

  Entry Wait(uint64_t amount) {
    if (version_ == 3) return Entry::Broken("version 3 has no wait");
    waited_ = true;
    if (wait_is_ms_since_start_) {
      uint64_t until_ns = 0;
      if (__builtin_mul_overflow(amount, kNsPerMs, &until_ns)) return Entry::Broken("too long");
      now_ns_ = std::max(now_ns_, until_ns);
      return Entry::Other();
    }
    uint64_t wait_ns = 0;
    if (amount < kWaitUsMin) return Entry::Other();
    if (__builtin_mul_overflow(amount, kNsPerUs, &wait_ns) ||
        __builtin_add_overflow(now_ns_, wait_ns, &now_ns_)) {
      return Entry::Broken("the wait is too long");
    }
    return Entry::Other();
  }

  struct File {
    uint64_t number = 0;
    bool open = false;
  };

  const bool wait_is_ms_since_start_;
  int version_ = 0;
  uint64_t now_ns_ = 0;
  bool waited_ = false;
  std::map<std::string, File, std::less<>> files_;
};

std::unique_ptr<EntryParser> MakeIologParser(const TraceOptions& options) {
  return std::make_unique<IologParser>(options.iolog_wait_is_ms_since_start);
}

bool Certain(std::string_view head) {
  return head.starts_with(kVersion2) || head.starts_with(kVersion3);
}

constexpr std::array kFormats = {
    TraceFormat{.name = "iolog",
                .help = "fio iolog, version 2 and 3",
                .certain = Certain,
                .make_parser = MakeIologParser},
};

}  // namespace

std::span<const TraceFormat> IologFormats() { return kFormats; }

}  // namespace ebb::env
