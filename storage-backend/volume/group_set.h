// GroupSet decides whether several disk groups are one node, all of it and none of it stale, and
// formats them when the node is new.
//
// Groups are consistent each by itself (NodeDevices). Together: they carry the same node UUID and
// their own place in it, the volume's size fits, and none missed a session in which clients wrote.
// For that, before a node serves, the epochs of all groups are recorded durably in each group's
// metadata: a group whose own epoch is below what another one has recorded was not there. Nothing
// is written before everything was checked.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/volume/node_devices.h"

namespace ebb::storage {

// How the volume lies over the groups: stripe s is in group s % count, behind that group's others.
struct StripeLayout {
  static constexpr uint64_t kStripeBytes = 1 << 20;  // docs/adr/0006-disk-groups.md

  uint32_t group_count = 1;

  // Bytes of `group` that lie before `offset` of the volume; of its end: the group's size.
  uint64_t BytesBefore(uint32_t group, uint64_t offset) const;
  uint32_t GroupOf(uint64_t offset) const {
    return static_cast<uint32_t>(offset / kStripeBytes % group_count);
  }
  // Of a byte in its group.
  uint64_t OffsetInGroup(uint64_t offset) const {
    return offset / kStripeBytes / group_count * kStripeBytes + offset % kStripeBytes;
  }
};

class GroupSet {
 public:
  struct Member {
    NodeDevices devices;
    MetadataStore* metadata = nullptr;
  };

  explicit GroupSet(std::vector<Member> members)
      : members_(std::move(members)), layout_{static_cast<uint32_t>(members_.size())} {}

  // The size of the volume; `volume_bytes` 0 takes the recorded one. Every refusal names the group
  // and what is at stake in all of them.
  absl::StatusOr<uint64_t> CheckOrFormat(uint64_t volume_bytes, uint64_t segment_bytes,
                                         const std::function<Uuid()>& make_uuid);
  // Likewise, but groups that were never made a node are refused: writes nothing.
  absl::StatusOr<uint64_t> Check(uint64_t volume_bytes = 0);
  // All groups have begun a session: from now on none of them may be missing from the node's next.
  absl::Status RecordServing();

 private:
  using Inspections = std::vector<NodeDevices::Inspection>;

  absl::StatusOr<Inspections> InspectAll(uint64_t volume_bytes, uint64_t segment_bytes);
  absl::Status CheckTogether(const Inspections& inspections);
  absl::Status CheckNoneStale(const Inspections& inspections);
  // The recorded size; FailedPrecondition when the groups' sizes do not make one volume.
  absl::StatusOr<uint64_t> RecordedBytes(const Inspections& inspections) const;
  absl::Status WithStake(const absl::Status& status);

  std::vector<Member> members_;
  StripeLayout layout_;
};

}  // namespace ebb::storage
