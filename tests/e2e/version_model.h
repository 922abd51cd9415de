// VersionModel knows what a disk with a volatile write cache may show after a crash.
//
// Every write, trim or zeroing of a block has a version, counted up over all blocks. A block may
// show any version from the last one that a completed flush (or FUA) covered up to the last one
// that was ever sent: nothing older, nothing else, never a mixture. The content of a block tells
// its own number and version, under a checksum, so that a block in the wrong place is seen too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ebb::testing {

inline constexpr size_t kModelBlockBytes = 4096;

class VersionModel {
 public:
  explicit VersionModel(size_t blocks) : blocks_(blocks) {}

  // The content of `block` at `version`: compressible, and now and then equal to no other block.
  static void Fill(uint64_t block, uint64_t version, std::span<std::byte> out);

  // A request for `count` blocks from `first` is about to be sent; its version.
  uint64_t Send(uint64_t first, uint64_t count, bool zeroes);
  // It was acknowledged; durable at once when `fua`.
  void Acknowledge(uint64_t first, uint64_t count, uint64_t version, bool fua);

  // What is acknowledged now; a flush sent after this call covers it once it completes.
  std::vector<uint64_t> AcknowledgedVersions() const;
  void Flushed(const std::vector<uint64_t>& covered);

  // Why `content` is no legal content of `block`; empty when it is. What was seen is then the
  // block's only legal content until it is written again.
  std::string CheckAndAdopt(uint64_t block, std::span<const std::byte> content);

  size_t blocks() const { return blocks_.size(); }
  // Blocks for which more than one version was legal, of those checked so far: how sharp and how
  // real the test was.
  uint64_t ambiguous_blocks() const { return ambiguous_blocks_; }

 private:
  struct Entry {
    uint64_t version = 0;
    bool zeroes = true;
  };
  struct Block {
    // Ascending; the first is the last durable one (version 0, zeroes: never written).
    std::vector<Entry> legal = {Entry()};
    uint64_t acknowledged = 0;
  };

  static void MakeDurable(Block& block, uint64_t version);

  std::vector<Block> blocks_;
  uint64_t last_version_ = 0;
  uint64_t ambiguous_blocks_ = 0;
};

}  // namespace ebb::testing
