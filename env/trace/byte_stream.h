// ByteStream reads a file front to back through a window, undoing zstd and gzip on the way.
//
// Compression is recognised by the first bytes, never by the name, so a compressed file is never
// taken for data. Several frames or members after each other are one stream. Memory is constant but
// for the largest window asked for. A cut or damaged compressed file is DataLoss. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ebb::env {

class ByteStream {
 public:
  // Where stored bytes come from; Read returns 0 at the end.
  class Source {
   public:
    virtual ~Source() = default;
    virtual absl::StatusOr<size_t> Read(char* to, size_t bytes_max) = 0;
  };

  // `path` "-" is the standard input.
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(const std::string& path);
  // Over bytes in memory, called `name` in messages.
  static absl::StatusOr<std::unique_ptr<ByteStream>> FromMemory(std::string bytes,
                                                                const std::string& name);
  // Over any source of stored bytes.
  static absl::StatusOr<std::unique_ptr<ByteStream>> Over(std::unique_ptr<Source> stored,
                                                          const std::string& name,
                                                          uint64_t stored_bytes_total);

  // The next bytes, at least `bytes` of them unless the stream ends before; valid until the next
  // call of a non-const method.
  absl::StatusOr<std::string_view> View(size_t bytes);
  // Goes on by `bytes`, which a View showed.
  void Consume(size_t bytes);

  const std::string& name() const { return name_; }
  // Bytes consumed, after decompression.
  uint64_t offset() const { return offset_; }
  // Bytes read of the file as stored, and how many it has (0: not known, as of a pipe).
  uint64_t stored_bytes_read() const;
  uint64_t stored_bytes_total() const { return stored_bytes_total_; }
  // The share of the stored bytes that was read, in [0, 1]; negative when that is not known.
  double progress() const;

 private:
  class Meter;

  ByteStream(std::string name, uint64_t stored_bytes_total)
      : name_(std::move(name)), stored_bytes_total_(stored_bytes_total) {}

  const std::string name_;
  const uint64_t stored_bytes_total_;
  Meter* meter_ = nullptr;  // owned through source_
  std::unique_ptr<Source> source_;
  std::string window_;
  size_t begin_ = 0;  // of what is not consumed, in window_
  size_t end_ = 0;
  uint64_t offset_ = 0;
  bool ended_ = false;
};

}  // namespace ebb::env
