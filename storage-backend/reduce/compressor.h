// Compressor shrinks units of blocks where that saves space, and says so where it does not.
//
// A codec is worth its decompression on every later read only when it saves something: a unit whose
// stored form, rounded up to kStoredUnitBytes, does not save an eighth is stored raw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "storage-backend/knobs/knobs.h"

namespace ebb::storage {

// Stored forms are packed at multiples of this.
inline constexpr size_t kStoredUnitBytes = 512;

// The largest stored form of `raw_bytes` that is worth keeping.
constexpr size_t MaxStoredBytes(size_t raw_bytes) {
  return (raw_bytes - raw_bytes / 8) / kStoredUnitBytes * kStoredUnitBytes;
}

// Keeps the codec's tables between calls. Not thread-safe: one a thread.
class Compressor {
 public:
  Compressor();
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // Compresses `raw` into the front of `out`, whose size is the most that is worth storing: usually
  // MaxStoredBytes(raw.size()). Returns the stored bytes, or 0 when they are more (always for
  // kOff).
  size_t Compress(Compression codec, std::span<const std::byte> raw, std::span<std::byte> out);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// Fills `raw` from `stored`. DataLoss when `stored` is not what `codec` made of raw.size() bytes;
// safe on any input. Thread-safe.
absl::Status Decompress(Compression codec, std::span<const std::byte> stored,
                        std::span<std::byte> raw);

}  // namespace ebb::storage
