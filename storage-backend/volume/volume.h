// Volume is the public face of a node's store: one block device over 1 to 5 disk groups, each a
// cache device and 1 to 7 capacity devices.
//
// A write is acknowledged when it is in the cache log's open group in memory or beyond; it is
// durable once a Flush that began after its acknowledgement returns OK (or at its own return when
// fua is set): the promise of a disk with a volatile write cache. Reads come from the DRAM read
// cache, the cache log or the capacity tier, and every block is verified against its checksum.
//
// The blocking verbs do their I/O on the caller's thread (nbdkit's worker), never handing a request
// to another thread. Offsets and sizes are bytes, any alignment; blocks are 4 KiB, partial ones are
// read, merged and written. Thread-safe. Start at Open; life of a write and of a read:
// docs/architecture.md.
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
#include "base/clock.h"
#include "base/histogram.h"
#include "storage-backend/device/device.h"
#include "storage-backend/device/superblock.h"
#include "storage-backend/knobs/knobs.h"
#include "storage-backend/volume/request_queue.h"

namespace ebb::storage {

inline constexpr uint32_t kBlockBytes = 4096;

class MetadataStore;  // storage-backend/metadata/metadata_store.h

struct VolumeConfig {
  uint64_t volume_bytes = 0;   // size shown to clients; a multiple of kBlockBytes
  uint64_t segment_bytes = 0;  // cache log segment; 0 = chosen from the device's size
  KnobLimits limits;
  Setting setting;  // to begin with
  // Threads of the destager etc. run only when set; tests drive RunBackgroundStep themselves.
  bool background_threads = true;
  bool may_format = true;  // false: blank devices are refused, and stay blank
  GroupPlace group;  // of this volume among the disk groups of its node; StripedVolume sets it
};

inline constexpr size_t kDiskGroupsMax = 5;

struct DiskGroup {
  std::unique_ptr<Device> cache;
  std::vector<std::unique_ptr<Device>> capacity;
  std::unique_ptr<MetadataStore> metadata;
};

// What happens to one kind of request; cumulative since Open.
struct OpCounters {
  uint64_t ops = 0;
  uint64_t bytes = 0;
  uint64_t errors = 0;
  LatencyHistogram latency;  // from the verb's entry to its return
};

// One device of the node. Counters of transfers, cumulative since Open; what failed is among them.
struct DeviceMetrics {
  uint32_t group = 0;  // disk group, from 0
  std::string name;    // "cache", "capacity0", "capacity1", ...
  uint64_t in_flight = 0;
  uint64_t reads = 0;
  uint64_t writes = 0;
  uint64_t flushes = 0;
  uint64_t errors = 0;
  bool failing = false;  // several transfers failed lately
};

// Cumulative counters and current gauges; a window is the difference of two. Consistent: taken at
// one instant, so dirty + clean + free == cache space and unique <= logical hold in every snapshot.
// Trim counts write-zeroes too. A new field has its place in AddMetrics (striped_volume.cc) as
// well.
struct VolumeMetrics {
  OpCounters read;
  OpCounters write;
  OpCounters flush;
  OpCounters trim;
  // Blocks read, by where they came from.
  uint64_t read_blocks_dram = 0;
  uint64_t read_blocks_cache = 0;
  uint64_t read_blocks_capacity = 0;
  uint64_t read_blocks_unmapped = 0;
  uint64_t readahead_blocks = 0;
  // Cache log.
  uint64_t cache_data_bytes = 0;     // user blocks appended
  uint64_t cache_copied_bytes = 0;   // copies of what was read from the capacity tier
  uint64_t cache_written_bytes = 0;  // everything written to the cache device
  uint64_t cache_space_bytes = 0;
  uint64_t dirty_bytes = 0;  // only in the log
  uint64_t clean_bytes = 0;  // copies of what is in the capacity tier, superseded blocks, headers
  uint64_t free_bytes = 0;   // in segments that hold nothing
  // Share in use of the write space that nvme_read_share leaves: dirty blocks and what lies between
  // them in the log. Above 1 after the write space was made smaller.
  double dirty_share = 0;
  uint64_t cache_memory_bytes = 0;  // of the log's map and buffers
  uint64_t throttle_ns = 0;         // time writes were held back
  uint64_t throttled_writes = 0;
  // Destage.
  uint64_t destage_batches = 0;
  uint64_t destaged_blocks = 0;   // blocks taken out of the log
  uint64_t coalesced_blocks = 0;  // overwritten in the log before they were destaged
  uint64_t deduplicated_blocks = 0;
  uint64_t unreduced_blocks = 0;      // stored without the reduction asked for, to catch up
  uint64_t unreadable_blocks = 0;     // dirty ones that the cache device could not read lately
  uint64_t destage_raw_bytes = 0;     // into the codec
  uint64_t destage_stored_bytes = 0;  // out of it
  uint64_t capacity_written_bytes = 0;
  bool draining = false;
  bool destage_stuck = false;  // it ought to move blocks and has not for a while
  // Space.
  uint64_t logical_bytes = 0;   // blocks the client has written and not trimmed, destaged part
  uint64_t unique_bytes = 0;    // distinct blocks among them
  uint64_t physical_bytes = 0;  // bytes of capacity segments in use
  uint64_t read_cache_used_bytes = 0;
  // Faults.
  uint64_t device_errors = 0;
  uint64_t checksum_errors = 0;
  uint64_t lost_blocks =
      0;  // damaged on the cache device before they were destaged; read as errors
  // Scrubber.
  uint64_t scrub_scanned_bytes = 0;
  uint64_t scrub_damaged_blocks = 0;
  uint64_t scrub_passes = 0;  // completed, over all groups
  double scrub_share = 0;     // of the pass under way
  std::vector<DeviceMetrics> devices;
};

// What the volume found out by itself, for the node's events and its log.
struct VolumeNotice {
  enum class Kind : uint8_t { kDamage, kStuck, kDevice, kRecovered };
  Kind kind = Kind::kDamage;
  std::string text;
};

// One request seen at the front end, for the sampled stream and the recorder.
struct StreamRecord {
  uint64_t time_ns = 0;  // monotonic
  char op = 'R';         // R read, W write, F flush, T trim, Z write zeroes
  bool fua = false;
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint32_t service_ns = 0;
  // Of a sampled write whose content was looked at: its first block (or what it has of it).
  bool has_content = false;
  uint64_t fingerprint = 0;  // equal for equal content; 0 for zeroes
  uint16_t compressed_per_mille = 0;
};

class Volume {
 public:
  // Formats blank devices; refuses foreign, swapped, stale, truncated or missing ones with the
  // reason and the number of dirty bytes at stake. `progress` is called during recovery with a
  // share in [0, 1].
  static absl::StatusOr<std::unique_ptr<Volume>> Open(
      const VolumeConfig& config, std::unique_ptr<Device> cache,
      std::vector<std::unique_ptr<Device>> capacity, std::unique_ptr<MetadataStore> metadata,
      Clock& clock, std::function<void(double)> progress = nullptr);
  // The same over several groups: the volume is striped over them (striped_volume.h).
  static absl::StatusOr<std::unique_ptr<Volume>> Open(
      const VolumeConfig& config, std::vector<DiskGroup> groups, Clock& clock,
      std::function<void(double)> progress = nullptr);
  virtual ~Volume() = default;  // stops the threads; flushes nothing: call Close for a clean stop

  virtual absl::Status Read(uint64_t offset, std::span<std::byte> out) = 0;
  virtual absl::Status Write(uint64_t offset, std::span<const std::byte> in, bool fua) = 0;
  virtual absl::Status WriteZeroes(uint64_t offset, uint64_t bytes, bool fua) = 0;
  virtual absl::Status Trim(uint64_t offset, uint64_t bytes, bool fua) = 0;
  virtual absl::Status Flush() = 0;

  // The asynchronous way in; the volume outlives the queue. Here: every request inside Submit.
  virtual std::unique_ptr<RequestQueue> MakeQueue(size_t depth) {
    return MakeBlockingQueue(*this, depth);
  }

  // Takes effect for the next request; refused whole when any value is illegal. Never blocks I/O.
  virtual absl::Status Apply(const Setting& setting) = 0;
  virtual Setting CurrentSetting() const = 0;

  virtual VolumeMetrics Metrics() = 0;
  // What happened since the last call, oldest first. Called every 100 ms or so: it also is when
  // the volume looks whether its background work still moves.
  virtual std::vector<VolumeNotice> CheckHealth() { return {}; }

  // Destages until nothing is dirty; `progress` gets dirty bytes left. Cancelled when it returns
  // false.
  virtual absl::Status Drain(const std::function<bool(uint64_t dirty_bytes)>& progress) = 0;
  // One step of background work on the caller's thread; false when there was nothing to do.
  virtual absl::StatusOr<bool> RunBackgroundStep() = 0;
  // Flushes, commits metadata and marks the devices clean. No verb may be called after it.
  virtual absl::Status Close() = 0;

  virtual uint64_t volume_bytes() const = 0;
  virtual std::string Describe() const = 0;
  virtual std::string uuid() const = 0;
};

}  // namespace ebb::storage
