#include "env/trace/formats/blktrace.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "env/trace/entry_source.h"
#include "env/trace/formats/fields.h"
#include "env/trace/formats/little_endian.h"
#include "env/trace/formats/request_flags.h"
#include "fmt/format.h"

namespace ebb::env {
namespace {

using trace::TraceRecord;

constexpr size_t kEventBytes = 48;
constexpr uint32_t kMagic = 0x65617407;
constexpr uint32_t kMagicSwapped = 0x07746165;

// Bits of an action's upper half (linux/blktrace_api.h).
enum Category : uint32_t {
  kRead = 1,
  kWrite = 2,
  kFlush = 4,
  kPassthrough = 1 << 9,
  kNotify = 1 << 10,
  kDiscard = 1 << 13,
  kFua = 1 << 15,
};
constexpr uint32_t kEventMask = 0xff;  // above it: a bit for cgroups

struct Event {
  uint64_t time_ns = 0;
  uint64_t sector = 0;
  uint32_t bytes = 0;
  uint32_t action = 0;
  uint32_t device = 0;
};

// One CPU's file: its next event is read ahead, for the merge.
class EventFile {
 public:
  explicit EventFile(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}

  const std::optional<Event>& next() const { return next_; }
  const ByteStream& stream() const { return *stream_; }
  uint64_t number() const { return number_; }
  bool cut() const { return cut_; }

  // Loads the event behind the present one; none at the end.
  absl::Status Advance() {
    next_.reset();
    EBB_RETURN_IF_ERROR(Skip());
    EBB_ASSIGN_OR_RETURN(const std::string_view bytes, stream_->View(kEventBytes));
    if (bytes.empty()) return absl::OkStatus();
    if (bytes.size() < kEventBytes) {
      cut_ = true;
      return absl::OkStatus();
    }
    ++number_;
    const auto magic = LoadLittle<uint32_t>(bytes, 0);
    if (magic != kMagic && magic != kMagicSwapped) {
      return absl::DataLossError(
          fmt::format("{}: event {} at byte {} has no magic number of blktrace version 7",
                      stream_->name(), number_, stream_->offset()));
    }
    swapped_ = magic == kMagicSwapped;
    next_ = Event{.time_ns = Load<uint64_t>(bytes, 8),
                  .sector = Load<uint64_t>(bytes, 16),
                  .bytes = Load<uint32_t>(bytes, 24),
                  .action = Load<uint32_t>(bytes, 28),
                  .device = Load<uint32_t>(bytes, 36)};
    skip_bytes_ = Load<uint16_t>(bytes, 46);
    stream_->Consume(kEventBytes);
    return absl::OkStatus();
  }

 private:
  // The data behind an event.
  absl::Status Skip() {
    EBB_ASSIGN_OR_RETURN(const std::string_view data, stream_->View(skip_bytes_));
    if (data.size() < skip_bytes_) cut_ = true;
    stream_->Consume(std::min<size_t>(skip_bytes_, data.size()));
    skip_bytes_ = 0;
    return absl::OkStatus();
  }

  template <typename T>
  T Load(std::string_view bytes, size_t offset) const {
    const T value = LoadLittle<T>(bytes, offset);
    if (!swapped_) return value;
    if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
    if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
    return static_cast<T>(__builtin_bswap16(static_cast<uint16_t>(value)));
  }

  std::unique_ptr<ByteStream> stream_;
  std::optional<Event> next_;
  uint64_t number_ = 0;
  size_t skip_bytes_ = 0;
  bool swapped_ = false;
  bool cut_ = false;
};

class BlktraceSource final : public TraceSource {
 public:
  BlktraceSource(std::vector<std::unique_ptr<ByteStream>> files, uint16_t event, TraceTraits traits,
                 const TraceOptions& options)
      : event_(event),
        traits_(std::move(traits)),
        book_(files.empty() ? "blktrace" : files.front()->name(), options.broken_share_max) {
    for (auto& file : files) files_.emplace_back(std::move(file));
  }

  absl::StatusOr<bool> Next(TraceRecord* record) override {
    EBB_RETURN_IF_ERROR(failure_);
    absl::StatusOr<bool> more = Read(record);
    if (!more.ok()) failure_ = more.status();
    return more;
  }
  const TraceTraits& traits() const override { return traits_; }
  const TraceCounts& counts() const override { return book_.counts(); }
  double progress() const override {
    double read = 0;
    double total = 0;
    for (const EventFile& file : files_) {
      if (file.stream().stored_bytes_total() == 0) continue;
      read += static_cast<double>(file.stream().stored_bytes_read());
      total += static_cast<double>(file.stream().stored_bytes_total());
    }
    return total == 0 ? -1 : read / total;
  }

 private:
  absl::StatusOr<bool> Read(TraceRecord* record) {
    if (!begun_) {
      for (EventFile& file : files_) EBB_RETURN_IF_ERROR(Advance(file));
      begun_ = true;
    }
    for (;;) {
      const char* reason = nullptr;
      if (taken_ < requests_.count) {
        *record = requests_.records[taken_++];
        if (book_.Take(record, &reason)) return true;
        EBB_RETURN_IF_ERROR(book_.CountBroken(file_->number(), file_->stream().offset(), reason));
        continue;
      }
      file_ = Earliest();
      if (file_ == nullptr) {
        EBB_RETURN_IF_ERROR(book_.Finish());
        return false;
      }
      EBB_RETURN_IF_ERROR(Understand(*file_->next()));
      EBB_RETURN_IF_ERROR(Advance(*file_));
    }
  }

  absl::Status Advance(EventFile& file) {
    const bool was_cut = file.cut();
    EBB_RETURN_IF_ERROR(file.Advance());
    if (was_cut || !file.cut()) return absl::OkStatus();
    return book_.CountBroken(file.number() + 1, file.stream().offset(), "the file ends inside it");
  }

  EventFile* Earliest() {
    EventFile* earliest = nullptr;
    for (EventFile& file : files_) {
      if (!file.next().has_value()) continue;
      if (earliest == nullptr || file.next()->time_ns < earliest->next()->time_ns) earliest = &file;
    }
    return earliest;
  }

  // Puts the event's requests into requests_.
  absl::Status Understand(const Event& event) {
    requests_.count = 0;
    taken_ = 0;
    const uint32_t category = event.action >> 16;
    if ((category & kNotify) != 0) {
      book_.CountMessage();
      return absl::OkStatus();
    }
    if ((event.action & kEventMask) != event_ || (category & kPassthrough) != 0) {
      book_.CountOther();
      return absl::OkStatus();
    }
    TraceRecord place;
    place.time_ns = event.time_ns;
    place.device = event.device;
    place.bytes = event.bytes;
    if (__builtin_mul_overflow(event.sector, kSectorBytes, &place.offset)) {
      // An empty flush has no place: the kernel says -1.
      if (event.bytes > 0) {
        return book_.CountBroken(file_->number(), file_->stream().offset(),
                                 "it reaches beyond 2^64 bytes");
      }
      place.offset = 0;
    }
    requests_ = RequestsOf({.read = (category & kRead) != 0,
                            .write = (category & kWrite) != 0,
                            .discard = (category & kDiscard) != 0,
                            .preflush = (category & kFlush) != 0,
                            .fua = (category & kFua) != 0},
                           place);
    if (requests_.count == 0) book_.CountOther();
    return absl::OkStatus();
  }

  const uint16_t event_;
  const TraceTraits traits_;
  EntryBook book_;
  std::vector<EventFile> files_;
  EventFile* file_ = nullptr;  // whose event requests_ are
  EventRequests requests_;
  size_t taken_ = 0;  // of requests_
  bool begun_ = false;
  absl::Status failure_;
};

// "sda.blktrace.3.zst" is "sda.blktrace." and a number; empty for other names.
std::string StemOf(const std::string& name) {
  const size_t mark = name.rfind(".blktrace.");
  if (mark == name.npos) return {};
  std::string_view number = std::string_view(name).substr(mark + 10);
  for (const std::string_view suffix : {".zst", ".gz"}) {
    if (number.ends_with(suffix)) number.remove_suffix(suffix.size());
  }
  uint64_t cpu = 0;
  return ParseNumber(number, &cpu) ? name.substr(0, mark + 10) : std::string();
}

}  // namespace

bool IsBlktrace(std::string_view head) {
  if (head.size() < kEventBytes) return false;
  const auto magic = LoadLittle<uint32_t>(head, 0);
  return magic == kMagic || magic == kMagicSwapped;
}

absl::StatusOr<std::vector<std::string>> FindBlktraceFiles(const std::string& path) {
  namespace fs = std::filesystem;
  std::string stem = StemOf(path);
  std::error_code no_file;
  if (stem.empty()) {
    if (path == "-" || fs::exists(path, no_file)) return std::vector<std::string>{path};
    stem = path + ".blktrace.";
  }
  fs::path folder = fs::path(stem).parent_path();
  if (folder.empty()) folder = ".";
  std::vector<std::string> files;
  for (fs::directory_iterator entry(folder, no_file), end; !no_file && entry != end;
       entry.increment(no_file)) {
    const std::string name = (fs::path(stem).parent_path() / entry->path().filename()).string();
    if (StemOf(name) == stem) files.push_back(name);
  }
  if (files.empty()) {
    return absl::NotFoundError(
        fmt::format("there is no trace {} (nor {}0, as of a blktrace)", path, stem));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::unique_ptr<TraceSource> MakeBlktraceSource(std::vector<std::unique_ptr<ByteStream>> files,
                                                uint16_t event, TraceTraits traits,
                                                const TraceOptions& options) {
  return std::make_unique<BlktraceSource>(std::move(files), event, std::move(traits), options);
}

}  // namespace ebb::env
