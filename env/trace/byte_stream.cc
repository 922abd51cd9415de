#include "env/trace/byte_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/status.h"
#include "env/trace/decompress.h"
#include "fmt/format.h"

namespace ebb::env {
namespace {

constexpr size_t kReadBytesMin = 4 << 10;
constexpr size_t kReadBytesMax = 256 << 10;

class FileSource final : public ByteStream::Source {
 public:
  FileSource(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  ~FileSource() override {
    if (fd_ != STDIN_FILENO) close(fd_);
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  absl::StatusOr<size_t> Read(char* to, size_t bytes_max) override {
    for (;;) {
      const ssize_t got = read(fd_, to, bytes_max);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) return ErrnoStatus(errno, fmt::format("cannot read {}", name_));
    }
  }

 private:
  const int fd_;
  const std::string name_;
};

class MemorySource final : public ByteStream::Source {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}

  absl::StatusOr<size_t> Read(char* to, size_t bytes_max) override {
    const size_t bytes = std::min(bytes_max, bytes_.size() - used_);
    std::memcpy(to, bytes_.data() + used_, bytes);
    used_ += bytes;
    return bytes;
  }

 private:
  const std::string bytes_;
  size_t used_ = 0;
};

}  // namespace

// Counts what is read of the file as stored, below the decompression.
class ByteStream::Meter final : public Source {
 public:
  explicit Meter(std::unique_ptr<Source> source) : source_(std::move(source)) {}

  absl::StatusOr<size_t> Read(char* to, size_t bytes_max) override {
    EBB_ASSIGN_OR_RETURN(const size_t got, source_->Read(to, bytes_max));
    bytes_ += got;
    return got;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<Source> source_;
  uint64_t bytes_ = 0;
};

absl::StatusOr<std::unique_ptr<ByteStream>> ByteStream::Open(const std::string& path) {
  const int fd = path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, fmt::format("cannot open trace {}", path));
  auto file = std::make_unique<FileSource>(fd, path);
  struct stat traits {};
  if (fstat(fd, &traits) != 0) return ErrnoStatus(errno, fmt::format("cannot open trace {}", path));
  if (S_ISDIR(traits.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{} is a folder, not a trace", path));
  }
  const bool sized = S_ISREG(traits.st_mode);
  return Over(std::move(file), path == "-" ? "standard input" : path,
              sized ? static_cast<uint64_t>(traits.st_size) : 0);
}

absl::StatusOr<std::unique_ptr<ByteStream>> ByteStream::FromMemory(std::string bytes,
                                                                   const std::string& name) {
  const uint64_t total = bytes.size();
  return Over(std::make_unique<MemorySource>(std::move(bytes)), name, total);
}

absl::StatusOr<std::unique_ptr<ByteStream>> ByteStream::Over(std::unique_ptr<Source> stored,
                                                             const std::string& name,
                                                             uint64_t stored_bytes_total) {
  std::unique_ptr<ByteStream> stream(new ByteStream(name, stored_bytes_total));
  auto meter = std::make_unique<Meter>(std::move(stored));
  stream->meter_ = meter.get();
  std::array<char, 4> head{};
  size_t head_bytes = 0;
  while (head_bytes < head.size()) {
    EBB_ASSIGN_OR_RETURN(const size_t got,
                         meter->Read(head.data() + head_bytes, head.size() - head_bytes));
    if (got == 0) break;
    head_bytes += got;
  }
  EBB_ASSIGN_OR_RETURN(
      stream->source_,
      Decompressed(std::move(meter), std::string_view(head.data(), head_bytes), name));
  return stream;
}

absl::StatusOr<std::string_view> ByteStream::View(size_t bytes) {
  while (end_ - begin_ < bytes && !ended_) {
    if (begin_ > 0) {
      std::memmove(window_.data(), window_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    // Grown as bytes come, so that small files need little.
    if (end_ == window_.size()) {
      const size_t grown = std::clamp(2 * window_.size(), kReadBytesMin, kReadBytesMax);
      window_.resize(std::max(grown, window_.size() + kReadBytesMin));
    }
    EBB_ASSIGN_OR_RETURN(const size_t got,
                         source_->Read(window_.data() + end_, window_.size() - end_));
    end_ += got;
    ended_ = got == 0;
  }
  return std::string_view(window_).substr(begin_, end_ - begin_);
}

void ByteStream::Consume(size_t bytes) {
  EBB_CHECK(bytes <= end_ - begin_);
  begin_ += bytes;
  offset_ += bytes;
}

uint64_t ByteStream::stored_bytes_read() const { return meter_->bytes(); }

double ByteStream::progress() const {
  if (stored_bytes_total_ == 0) return -1;
  return std::min(
      1.0, static_cast<double>(stored_bytes_read()) / static_cast<double>(stored_bytes_total_));
}

}  // namespace ebb::env
