#include "base/trace/trace_content.h"

#include <algorithm>
#include <cstring>

#include <lz4.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/trace/trace_format.h"

namespace ebb::trace {
namespace {

constexpr uint64_t kLevelMask = 0xf;
constexpr uint64_t kLevels = 16;
// LZ4's cost for the compressible rest of a block, so that a stand-in hits its level's middle.
constexpr size_t kRestCostBytes = 30;

bool AllZero(std::span<const std::byte> data) {
  return data.front() == std::byte{0} &&
         std::memcmp(data.data(), data.data() + 1, data.size() - 1) == 0;
}

// LZ4's output size, at most data.size(): what does not shrink is stored as it is.
size_t Lz4Bytes(std::span<const std::byte> data) {
  thread_local std::vector<char> scratch;
  scratch.resize(std::max<size_t>(scratch.size(), data.size()));
  const int stored =
      LZ4_compress_default(reinterpret_cast<const char*>(data.data()), scratch.data(),
                           static_cast<int>(data.size()), static_cast<int>(data.size()));
  return stored <= 0 ? data.size() : static_cast<size_t>(stored);
}

// `lz4_bytes`: of the block.
uint64_t Fingerprint(std::span<const std::byte> block, size_t lz4_bytes) {
  if (AllZero(block)) return 0;
  const uint64_t level = std::min(kLevels - 1, lz4_bytes * kLevels / block.size());
  const uint64_t hash = XXH3_64bits(block.data(), block.size()) & ~kLevelMask;
  // Not zero: that is taken.
  return std::max<uint64_t>(hash, kLevels) | level;
}

// Calls visit(position in data, length) for each block-aligned piece of a request.
template <typename Visit>
void ForEachPiece(uint64_t offset, size_t bytes, const Visit& visit) {
  for (size_t done = 0; done < bytes;) {
    const size_t room = kTraceBlockBytes - (offset + done) % kTraceBlockBytes;
    const size_t length = std::min(bytes - done, room);
    visit(done, length);
    done += length;
  }
}

}  // namespace

WriteContent DescribeContent(uint64_t offset, std::span<const std::byte> data) {
  WriteContent content;
  if (data.empty()) return content;
  const size_t lz4_bytes = Lz4Bytes(data);
  content.fingerprints.reserve(BlocksTouched(offset, data.size()));
  ForEachPiece(offset, data.size(), [&](size_t at, size_t length) {
    const auto piece = data.subspan(at, length);
    content.fingerprints.push_back(
        Fingerprint(piece, length == data.size() ? lz4_bytes : Lz4Bytes(piece)));
  });
  content.compressed_per_mille = static_cast<uint16_t>(lz4_bytes * 1000 / data.size());
  return content;
}

void MakeContent(uint64_t fingerprint, std::span<std::byte> block) {
  if (fingerprint == 0) {
    std::fill(block.begin(), block.end(), std::byte{0});
    return;
  }
  const uint64_t level = fingerprint & kLevelMask;
  // The middle of the level, less what the rest costs; the top level does not shrink at all.
  const size_t target = block.size() * (2 * level + 1) / (2 * kLevels);
  size_t noise = target > kRestCostBytes ? target - kRestCostBytes : 0;
  if (level == kLevels - 1) noise = block.size();
  // Also the most compressible block says which it is.
  noise = std::max(noise, std::min(block.size(), sizeof(uint64_t)));

  Rng rng(fingerprint);
  for (size_t at = 0; at < noise; at += sizeof(uint64_t)) {
    const uint64_t word = rng.Next();
    std::memcpy(block.data() + at, &word, std::min(sizeof word, noise - at));
  }
  const auto filler = static_cast<std::byte>(0x20 + rng.Below(64));
  std::fill(block.begin() + static_cast<std::ptrdiff_t>(noise), block.end(), filler);
}

void MakeContent(uint64_t offset, std::span<const uint64_t> fingerprints,
                 std::span<std::byte> data) {
  EBB_CHECK(fingerprints.size() == BlocksTouched(offset, data.size()));
  size_t next = 0;
  ForEachPiece(offset, data.size(), [&](size_t at, size_t length) {
    MakeContent(fingerprints[next++], data.subspan(at, length));
  });
}

}  // namespace ebb::trace
