#include "env/trace/decompress.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <zlib.h>
#include <zstd.h>

#include "base/status.h"
#include "fmt/format.h"

namespace ebb::env {
namespace {

constexpr size_t kInputBytes = 128 << 10;
// A frame may ask for any window; 27 (128 MiB) is zstd's own limit for untrusted input, and more
// than its levels up to 19 use (8 MiB).
constexpr int kZstdWindowLogMax = 27;

// The stored bytes, with the ones that were read to look at them put back.
class StoredBytes final : public ByteStream::Source {
 public:
  StoredBytes(std::unique_ptr<Source> rest, std::string_view head)
      : head_(head), rest_(std::move(rest)) {}

  absl::StatusOr<size_t> Read(char* to, size_t bytes_max) override {
    if (head_used_ == head_.size()) return rest_->Read(to, bytes_max);
    const size_t bytes = std::min(bytes_max, head_.size() - head_used_);
    std::memcpy(to, head_.data() + head_used_, bytes);
    head_used_ += bytes;
    return bytes;
  }

 private:
  const std::string head_;
  size_t head_used_ = 0;
  std::unique_ptr<Source> rest_;
};

// What both decompressors share: a buffer of stored bytes that is refilled when used up.
class Decompressor : public ByteStream::Source {
 public:
  Decompressor(std::unique_ptr<Source> stored, std::string name)
      : name_(std::move(name)), stored_(std::move(stored)), input_(kInputBytes, '\0') {}

 protected:
  absl::Status Fill() {
    if (used_ < filled_ || stored_ended_) return absl::OkStatus();
    EBB_ASSIGN_OR_RETURN(filled_, stored_->Read(input_.data(), input_.size()));
    used_ = 0;
    stored_ended_ = filled_ == 0;
    return absl::OkStatus();
  }
  absl::Status Damaged(const char* reason) const {
    return absl::DataLossError(fmt::format("{}: damaged compression: {}", name_, reason));
  }
  absl::Status Cut() const {
    return absl::DataLossError(
        fmt::format("{}: it ends inside its compressed data: it is truncated", name_));
  }

  const std::string name_;
  std::unique_ptr<Source> stored_;
  std::string input_;
  size_t used_ = 0;
  size_t filled_ = 0;
  bool stored_ended_ = false;
};

class ZstdSource final : public Decompressor {
 public:
  ZstdSource(std::unique_ptr<Source> stored, const std::string& name)
      : Decompressor(std::move(stored), name), stream_(ZSTD_createDStream()) {
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kZstdWindowLogMax);
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  absl::StatusOr<size_t> Read(char* to, size_t bytes_max) override {
    ZSTD_outBuffer out{to, bytes_max, 0};
    while (out.pos == 0) {
      EBB_RETURN_IF_ERROR(Fill());
      if (stored_ended_ && between_frames_) return size_t{0};
      ZSTD_inBuffer in{input_.data(), filled_, used_};
      const size_t left = ZSTD_decompressStream(stream_, &out, &in);
      if (ZSTD_isError(left) != 0U) return Damaged(ZSTD_getErrorName(left));
      // Without input and without output there is nothing to wait for.
      if (stored_ended_ && out.pos == 0 && left != 0) return Cut();
      used_ = in.pos;
      between_frames_ = left == 0;
    }
    return out.pos;
  }

 private:
  ZSTD_DStream* stream_;
  bool between_frames_ = false;
};

class GzipSource final : public Decompressor {
 public:
  static absl::StatusOr<std::unique_ptr<Source>> Make(std::unique_ptr<Source> stored,
                                                      const std::string& name) {
    std::unique_ptr<GzipSource> source(new GzipSource(std::move(stored), name));
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&source->stream_, kGzipOnly) != Z_OK) {
      return absl::InternalError("zlib cannot start");
    }
    source->started_ = true;
    return source;
  }
  ~GzipSource() override {
    if (started_) inflateEnd(&stream_);
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  absl::StatusOr<size_t> Read(char* to, size_t bytes_max) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(bytes_max, 1U << 30));
    const uInt room = stream_.avail_out;
    while (stream_.avail_out == room) {
      EBB_RETURN_IF_ERROR(Fill());
      if (stored_ended_) {
        if (between_members_) return size_t{0};
        return Cut();
      }
      if (std::exchange(between_members_, false) && inflateReset(&stream_) != Z_OK) {
        return Damaged("zlib cannot go on");
      }
      stream_.next_in = reinterpret_cast<Bytef*>(input_.data() + used_);
      stream_.avail_in = static_cast<uInt>(filled_ - used_);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      used_ = filled_ - stream_.avail_in;
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        return Damaged(stream_.msg == nullptr ? "wrong data" : stream_.msg);
      }
      between_members_ = result == Z_STREAM_END;
    }
    return room - stream_.avail_out;
  }

 private:
  GzipSource(std::unique_ptr<Source> stored, const std::string& name)
      : Decompressor(std::move(stored), name) {}

  z_stream stream_{};
  bool started_ = false;
  bool between_members_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteStream::Source>> Decompressed(
    std::unique_ptr<ByteStream::Source> stored, std::string_view head, const std::string& name) {
  auto all = std::make_unique<StoredBytes>(std::move(stored), head);
  if (head.starts_with("\x28\xb5\x2f\xfd")) {
    return std::make_unique<ZstdSource>(std::move(all), name);
  }
  if (head.starts_with("\x1f\x8b")) return GzipSource::Make(std::move(all), name);
  return all;
}

}  // namespace ebb::env
