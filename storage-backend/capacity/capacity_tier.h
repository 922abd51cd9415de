// CapacityTier keeps destaged blocks on 1 to 7 capacity devices: deduplicated, compressed, in large
// extents.
//
// The devices are logs of segments; a block's place is found through the block map: a block on its
// own is where its entry says, one that was compressed with others or may be shared is a part of a
// unit (block -> unit -> place), which can be moved without touching the blocks that refer to it.
// Order of every change: data written and the devices flushed, then the map committed durably. So a
// crash at any point leaves either the old or the new place, both intact.
//
// Threads: Read, usage and FreeBytes from any thread, also during a Store; Store, Remove and
// CompactStep from one thread at a time (the destager).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/device/device.h"
#include "storage-backend/device/superblock.h"
#include "storage-backend/knobs/knobs.h"

namespace ebb::storage {

class MetadataStore;

struct StoreOptions {
  Compression compression = Compression::kOff;
  uint32_t unit_bytes = 32 * 1024;  // compressed together
  Dedup dedup = Dedup::kOff;
  int parallelism = 1;  // extents in flight to each device
  int threads = 1;      // that compress
};

// One 4 KiB block to store.
struct StoreBlock {
  uint64_t block = 0;  // volume offset / 4096
  const std::byte* data = nullptr;
  uint32_t crc32c = 0;  // of data; verified before it is stored
};

struct StoreReport {
  uint64_t blocks = 0;
  uint64_t deduplicated_blocks = 0;
  uint64_t raw_bytes = 0;      // into the codec
  uint64_t stored_bytes = 0;   // out of it
  uint64_t written_bytes = 0;  // to the devices, padding and headers included
};

// All derived from the metadata store, so they agree with it after any crash.
struct CapacityUsage {
  uint64_t logical_bytes = 0;  // mapped blocks * 4096
  uint64_t unique_bytes = 0;   // distinct stored blocks * 4096
  uint64_t stored_bytes = 0;   // live units after compression
  uint64_t physical_bytes =
      0;                    // segments in use, with their dead and padding bytes, and superblocks
  uint64_t free_bytes = 0;  // can still be stored, worst case (incompressible, unique)
};

// How much the tier keeps in memory and leaves to be replayed; a test makes them small.
struct CapacityTuning {
  uint64_t map_cache_bytes = 64 << 20;   // of the block map's pages; dirty ones take at most half
  uint64_t journal_bytes_max = 8 << 20;  // of changes that are not in the block map's pages yet
};

class CapacityTier {
 public:
  // `devices` carry valid superblocks already (the volume checks or formats them) and belong to the
  // node `node_uuid`. Borrowed, as is `metadata`: they outlive the tier. FailedPrecondition when
  // the metadata is of another node or describes other devices; DataLoss when it is damaged.
  static absl::StatusOr<std::unique_ptr<CapacityTier>> Open(std::vector<Device*> devices,
                                                            MetadataStore* metadata,
                                                            const Uuid& node_uuid = {});
  static absl::StatusOr<std::unique_ptr<CapacityTier>> OpenTuned(std::vector<Device*> devices,
                                                                 MetadataStore* metadata,
                                                                 const Uuid& node_uuid,
                                                                 const CapacityTuning& tuning);
  virtual ~CapacityTier() = default;

  // Stores `blocks` (distinct, ascending) durably; replaces what was mapped there before. On an
  // error nothing changed that a reader or a restart could see. `keep_going`, when set, is asked
  // between extents: false abandons the batch with Cancelled.
  virtual absl::Status Store(std::span<const StoreBlock> blocks, const StoreOptions& options,
                             StoreReport* report,
                             const std::function<bool()>& keep_going = nullptr) = 0;
  // Unmaps [first_block, first_block + count) durably.
  virtual absl::Status Remove(uint64_t first_block, uint64_t count) = 0;
  // Fills `out` (count * 4096 bytes) with blocks from `first_block`; unmapped ones become zeroes.
  // Every block is verified; DataLoss names the block, device and offset. mapped[i] tells whether
  // block i was mapped (may be empty).
  virtual absl::Status Read(uint64_t first_block, uint64_t count, std::byte* out,
                            std::span<bool> mapped) = 0;

  virtual CapacityUsage Usage() = 0;
  // Cheap lower bound of Usage().free_bytes, for ENOSPC before acknowledgement.
  virtual uint64_t FreeBytes() = 0;
  // Moves the live units out of the emptiest segment; false when nothing is worth moving.
  virtual absl::StatusOr<bool> CompactStep() = 0;
  // Recomputes reference counts, segment use and accounting from the map and compares: every fault
  // in words.
  virtual absl::StatusOr<std::vector<std::string>> Check() = 0;
};

}  // namespace ebb::storage
