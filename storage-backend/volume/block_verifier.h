// BlockVerifier reads what a volume holds of a range of blocks, on both tiers, and verifies every
// checksum: for the scrubber and for `ebb node check`.
//
// The newest version in the log (when it is on the device) and what the capacity tier has mapped
// are both read, also where one hides the other. Nothing enters a cache. Clients go on meanwhile:
// a segment of the log that is being read is pinned. One caller at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "storage-backend/capacity/capacity_tier.h"
#include "storage-backend/device/device.h"
#include "storage-backend/log/cache_log.h"

namespace ebb::storage {

class BlockVerifier {
 public:
  static constexpr uint32_t kBlocksMax = 256;

  struct Result {
    uint64_t cache_blocks = 0;         // read on the cache device
    uint64_t capacity_blocks = 0;      // read in the capacity tier
    uint64_t damaged_blocks = 0;       // of both
    std::vector<std::string> damages;  // a sentence each
  };

  // Borrows everything.
  BlockVerifier(CacheLog& log, CapacityTier& tier, Device& cache);

  // At most kBlocksMax blocks from `first_block`; adds to `result`.
  void Verify(uint64_t first_block, uint32_t count, Result& result);

 private:
  struct Copy {
    uint64_t block = 0;
    CacheLog::Place place;
    bool dirty = false;
  };

  void VerifyCache(uint64_t first_block, uint32_t count, Result& result);
  void VerifyRun(const Copy* copies, size_t count, Result& result);
  void VerifyCapacity(uint64_t first_block, uint32_t count, Result& result);

  CacheLog& log_;
  CapacityTier& tier_;
  Device& cache_;
  AlignedBuffer buffer_;
  std::vector<Copy> copies_;
};

}  // namespace ebb::storage
