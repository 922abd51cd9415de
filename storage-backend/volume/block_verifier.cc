#include "storage-backend/volume/block_verifier.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <span>

#include "base/check.h"
#include "base/crc32c.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

// Looked up under the log's lock at once: clients wait that long.
constexpr uint32_t kLookUpBlocks = 64;

}  // namespace

BlockVerifier::BlockVerifier(CacheLog& log, CapacityTier& tier, Device& cache)
    : log_(log), tier_(tier), cache_(cache), buffer_(size_t{kBlocksMax} * kCacheBlockBytes) {}

void BlockVerifier::Verify(uint64_t first_block, uint32_t count, Result& result) {
  EBB_CHECK(count <= kBlocksMax);
  for (uint32_t done = 0; done < count; done += kLookUpBlocks) {
    VerifyCache(first_block + done, std::min(kLookUpBlocks, count - done), result);
  }
  VerifyCapacity(first_block, count, result);
}

void BlockVerifier::VerifyCache(uint64_t first_block, uint32_t count, Result& result) {
  copies_.clear();
  {
    const std::lock_guard lock(log_.mutex());
    for (uint64_t block = first_block; block < first_block + count; ++block) {
      const CacheLog::Place place = log_.FindLocked(block);
      if (place.kind == CacheLog::Place::Kind::kDevice) {
        copies_.push_back({.block = block, .place = place, .dirty = log_.IsDirtyLocked(block)});
      } else {
        log_.Unpin(place);
      }
    }
  }
  std::sort(copies_.begin(), copies_.end(),
            [](const Copy& a, const Copy& b) { return a.place.cache_block < b.place.cache_block; });
  for (size_t begin = 0; begin < copies_.size();) {
    size_t end = begin + 1;
    while (end < copies_.size() &&
           copies_[end].place.cache_block == copies_[end - 1].place.cache_block + 1) {
      ++end;
    }
    VerifyRun(&copies_[begin], end - begin, result);
    begin = end;
  }
  for (const Copy& copy : copies_) log_.Unpin(copy.place);
}

void BlockVerifier::VerifyRun(const Copy* copies, size_t count, Result& result) {
  const std::span<std::byte> data = buffer_.span(0, count * kCacheBlockBytes);
  const uint64_t offset = uint64_t{copies[0].place.cache_block} * kCacheBlockBytes;
  absl::Status status = cache_.Read(offset, data);
  for (size_t i = 0; i < count; ++i) {
    const Copy& copy = copies[i];
    const std::span<std::byte> block = data.subspan(i * kCacheBlockBytes, kCacheBlockBytes);
    const uint64_t at = offset + i * kCacheBlockBytes;
    ++result.cache_blocks;
    if (status.ok() && Crc32c(block) == copy.place.crc32c) continue;
    // A second look, alone: a neighbour's error or a passing one is not this block's damage.
    const absl::Status again = cache_.Read(at, block);
    if (again.ok() && Crc32c(block) == copy.place.crc32c) continue;
    ++result.damaged_blocks;
    result.damages.push_back(fmt::format(
        "block {} is damaged on the cache device ({}) at offset {}: {}, {}", copy.block,
        cache_.Describe(), at, again.ok() ? "its checksum is wrong" : std::string(again.message()),
        copy.dirty ? "and it is the only copy" : "a copy of what the capacity tier has"));
  }
}

void BlockVerifier::VerifyCapacity(uint64_t first_block, uint32_t count, Result& result) {
  std::array<bool, kBlocksMax> mapped{};
  const std::span<bool> mapped_span(mapped.data(), count);
  if (tier_.Read(first_block, count, buffer_.data(), mapped_span).ok()) {
    result.capacity_blocks +=
        static_cast<uint64_t>(std::count(mapped_span.begin(), mapped_span.end(), true));
    return;
  }
  // Something in there is damaged: which blocks, one by one.
  for (uint32_t i = 0; i < count; ++i) {
    bool one = false;
    const absl::Status status = tier_.Read(first_block + i, 1, buffer_.data(), {&one, 1});
    if (status.ok()) {
      result.capacity_blocks += one ? 1 : 0;
      continue;
    }
    ++result.capacity_blocks;
    ++result.damaged_blocks;
    result.damages.emplace_back(status.message());
  }
}

}  // namespace ebb::storage
