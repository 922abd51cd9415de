// NodeDevices decides whether a set of devices and a metadata store are one disk group of a node,
// and formats them when all of them are blank.
//
// Nothing is written before everything was checked; a device with a superblock, or with anything
// else on it, is never formatted. Every refusal says why and what is at stake. A node of several
// groups is checked as a whole by StripedVolume, from the inspections of its groups.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/device/device.h"
#include "storage-backend/device/superblock.h"
#include "storage-backend/log/log_format.h"
#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {

class NodeDevices {
 public:
  struct Identity {
    Uuid uuid{};
    uint64_t volume_bytes = 0;
    uint64_t epoch = 0;  // of the last session; the next is one more
    LogGeometry geometry;
  };
  // What is there; of kNew the identity means nothing, of kHalfFormatted only its uuid.
  struct Inspection {
    enum class State : uint8_t { kNew, kHalfFormatted, kFormatted };
    State state = State::kNew;
    Identity identity;
  };
  // What is only in the cache, as the superblocks say.
  struct Stake {
    bool known = false;
    bool clean = true;  // closed cleanly; else there may be more
    uint64_t dirty_bytes = 0;
  };

  // Borrows everything.
  NodeDevices(Device* cache, std::vector<Device*> capacity, MetadataStore* metadata,
              std::function<Uuid()> make_uuid = MakeUuid, GroupPlace group = {})
      : cache_(cache),
        capacity_(std::move(capacity)),
        metadata_(metadata),
        make_uuid_(std::move(make_uuid)),
        group_(group) {}

  // Reads and judges; writes nothing. Refusals here do not tell the stake.
  absl::StatusOr<Inspection> Inspect(uint64_t volume_bytes, uint64_t segment_bytes);
  // Makes a new group of the node `uuid` of blank or half formatted devices.
  absl::StatusOr<Identity> Format(const Uuid& uuid, uint64_t volume_bytes, uint64_t segment_bytes);
  Stake ReadStake();
  // The refusal `status` with what is at stake behind it; bad arguments and OK stay as they are.
  static absl::Status WithStake(const absl::Status& status, const Stake& stake);

  // The node they are. `volume_bytes` 0 takes the recorded size; `segment_bytes` is for a new node.
  absl::StatusOr<Identity> CheckOrFormat(uint64_t volume_bytes, uint64_t segment_bytes);
  // Likewise, but devices that were never made a node are refused: writes nothing.
  absl::StatusOr<Identity> Check(uint64_t volume_bytes);

  // Writes the superblock of every device durably.
  absl::Status Stamp(const Identity& identity, uint64_t epoch, uint64_t dirty_bytes, bool clean);

 private:
  // What metadata says of the node.
  struct Record {
    bool present = false;
    bool formatting = false;  // a format was begun and not finished
    Uuid uuid{};
    uint64_t volume_bytes = 0;
    GroupPlace group;
  };
  struct Found {
    std::string name;  // "the cache device (file x)"
    Device* device = nullptr;
    Superblock::Role role = Superblock::Role::kCache;
    uint32_t index = 0;
    absl::Status status;  // of reading its superblock
    SuperblockReading reading;
  };

  absl::StatusOr<Record> ReadRecord();
  absl::Status WriteRecord(const Record& record);
  std::vector<Found> ReadAll();
  // The superblock of device `number`: 0 the cache, then the capacity devices.
  Superblock SuperblockOf(uint32_t number, const Identity& identity, uint64_t epoch,
                          uint64_t dirty_bytes, bool clean) const;
  // Whether a format for `identity` was begun, broke off, and nothing else was written since.
  absl::StatusOr<bool> IsHalfFormatted(const Identity& identity);
  absl::Status CheckFormatted(const Record& record, const std::vector<Found>& found,
                              uint64_t epoch);

  Device* cache_;
  std::vector<Device*> capacity_;
  MetadataStore* metadata_;
  std::function<Uuid()> make_uuid_;
  GroupPlace group_;
};

}  // namespace ebb::storage
