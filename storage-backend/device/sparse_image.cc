#include "storage-backend/device/sparse_image.h"

#include <algorithm>
#include <cstring>

namespace ebb::storage {

void SparseImage::Read(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const uint64_t within = offset % kChunkBytes;
    const uint64_t bytes = std::min<uint64_t>(out.size(), kChunkBytes - within);
    const auto& chunk = chunks_[offset / kChunkBytes];
    if (chunk == nullptr) {
      std::memset(out.data(), 0, bytes);
    } else {
      std::memcpy(out.data(), chunk->data() + within, bytes);
    }
    offset += bytes;
    out = out.subspan(bytes);
  }
}

void SparseImage::Write(uint64_t offset, std::span<const std::byte> in) {
  while (!in.empty()) {
    const uint64_t within = offset % kChunkBytes;
    const uint64_t bytes = std::min<uint64_t>(in.size(), kChunkBytes - within);
    auto& chunk = chunks_[offset / kChunkBytes];
    if (chunk == nullptr) chunk = std::make_unique<Chunk>();
    std::memcpy(chunk->data() + within, in.data(), bytes);
    offset += bytes;
    in = in.subspan(bytes);
  }
}

}  // namespace ebb::storage
