// Superblock says what a device of a node is: two copies of 4 KiB, in its first and last block.
//
// Written when a node is created and at each open and close; both copies are alike but for the
// moment between their two writes, which a flush separates, so that one is always whole. The exact
// bytes: docs/formats.md, "Superblock".
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/device/device.h"

namespace ebb::storage {

using Uuid = std::array<uint8_t, 16>;

// A random (version 4) UUID from the operating system.
Uuid MakeUuid();
// "f81d4fae-7dec-11d0-a765-00a0c91e6bf6".
std::string FormatUuid(const Uuid& uuid);

// Which of its node's disk groups a device belongs to.
struct GroupPlace {
  uint32_t index = 0;
  uint32_t count = 1;
  friend bool operator==(const GroupPlace&, const GroupPlace&) = default;
};

// What the log and the capacity tier of one group carry as their UUID, so that another group's
// bytes never pass for theirs; the first group's is the node's.
Uuid GroupUuid(const Uuid& node_uuid, uint32_t group_index);

struct Superblock {
  enum class Role : uint8_t { kCache = 1, kCapacity = 2 };

  Uuid node_uuid{};
  Uuid device_uuid{};
  Role role = Role::kCache;
  uint32_t device_index = 0;  // among the group's capacity devices; 0 for the cache
  uint32_t capacity_device_count = 1;
  uint64_t device_bytes = 0;   // must equal the device's size
  uint64_t segment_bytes = 0;  // of the cache log or the capacity tier
  uint64_t epoch = 0;          // one more at each open, equal on all devices of a node
  uint64_t dirty_bytes = 0;    // hint: not yet destaged when this was written
  bool clean_shutdown = false;
  GroupPlace group;

  friend bool operator==(const Superblock&, const Superblock&) = default;
};

// Room that the two copies take, at each end of the device.
inline constexpr uint64_t kSuperblockBytes = 4096;

struct SuperblockReading {
  bool blank = false;  // nothing on the device: `superblock` has no meaning
  Superblock superblock;
  std::string damage;  // one copy is bad and the other was used: which and why; else empty
};

// What `device` holds. Errors, each naming the device:
//   FailedPrecondition  foreign: data that is not ours (and what it looks like)
//   OutOfRange          truncated or grown: the size now and the size recorded
//   DataLoss            ours, but both copies are damaged, or of a newer format
// A device counts as blank only when its first 128 KiB and last block are all zero, because some
// file systems keep their mark away from the start.
absl::StatusOr<SuperblockReading> ReadSuperblock(Device& device);

// Whether `device` is blank but for whole sectors (512 bytes) of the two copies of `superblock`:
// all that a power cut can leave of the first WriteSuperblock.
absl::StatusOr<bool> HoldsOnlyPartsOf(Device& device, const Superblock& superblock);

// Writes both copies durably. InvalidArgument when superblock.device_bytes is not the device's
// size.
absl::Status WriteSuperblock(Device& device, const Superblock& superblock);

}  // namespace ebb::storage
