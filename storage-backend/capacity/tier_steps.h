// What the steps of Tier hand to each other; nobody else includes this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "storage-backend/capacity/tier.h"
#include "storage-backend/capacity/unit_packer.h"

namespace ebb::storage {

// A block to read, with its place in the map.
struct Tier::Wanted {
  uint64_t block = 0;
  uint64_t position = 0;  // in the caller's buffer, in blocks
  MapEntry entry;
  UnitRecord unit;
  bool resolved = false;
};

// What Store carries from step to step.
struct Tier::StoreBatch {
  std::span<const StoreBlock> blocks;
  StoreOptions options;
  StoreReport& report;
  MapTransaction& transaction;
  UnitPacker& packer;
  std::vector<MapEntry> entries;  // by block: where it is or will be
  // By block; empty without deduplication. Of blocks that are not looked up the fingerprint is
  // unused. `same_as`: the earlier block of this batch with the same content, or itself.
  std::vector<Fingerprint> fingerprints;
  std::vector<size_t> same_as;
};

// Whether a block with this checksum is looked up by its fingerprint, and found by it later
// (tier_dedup.cc).
bool IsLookedUp(Dedup dedup, uint32_t crc32c);

}  // namespace ebb::storage
