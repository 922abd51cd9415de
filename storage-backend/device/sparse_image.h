// SparseImage is the content of a simulated disk: memory only for what was ever written.
//
// Crash tests make and throw away thousands of disks that are mostly empty. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ebb::storage {

class SparseImage {
 public:
  explicit SparseImage(uint64_t size_bytes)
      : chunks_((size_bytes + kChunkBytes - 1) / kChunkBytes) {}

  // Never written bytes read as zero. Ranges lie within the size.
  void Read(uint64_t offset, std::span<std::byte> out) const;
  void Write(uint64_t offset, std::span<const std::byte> in);

 private:
  static constexpr uint64_t kChunkBytes = 16 << 10;
  using Chunk = std::array<std::byte, kChunkBytes>;

  std::vector<std::unique_ptr<Chunk>> chunks_;
};

}  // namespace ebb::storage
