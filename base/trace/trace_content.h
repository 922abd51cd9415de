// Fingerprints of blocks, and blocks made again from their fingerprints.
//
// A fingerprint is the block's XXH3-64 with its four lowest bits replaced by how well LZ4 shrinks
// it (0: to less than 1/16, ..., 15: not at all). So it alone determines the block that stands in
// for the recorded one in a replay: equal blocks stay equal, different ones different, and each
// keeps its compressibility to 1/16. A block of zeroes has fingerprint 0 and comes back as zeroes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ebb::trace {

struct WriteContent {
  uint16_t compressed_per_mille = 0;  // LZ4 over the whole request; 1000 when it does not shrink
  std::vector<uint64_t> fingerprints;
};

// What TraceRecord keeps of a write of `data` at `offset`. About 6 us for each 4 KiB.
WriteContent DescribeContent(uint64_t offset, std::span<const std::byte> data);

// Fills `block` (at most 4096 bytes) with the stand-in for `fingerprint`.
void MakeContent(uint64_t fingerprint, std::span<std::byte> block);
// Fills `data`, a write at `offset`, from the fingerprints of the blocks that it touches.
void MakeContent(uint64_t offset, std::span<const uint64_t> fingerprints,
                 std::span<std::byte> data);

}  // namespace ebb::trace
