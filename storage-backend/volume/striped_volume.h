// StripedVolume is the Volume of a node with several disk groups: stripes of 1 MiB, one group after
// the other, each group a whole VolumeImpl with devices, log and metadata of its own.
//
// A request inside a stripe goes to its group as it is, on the caller's thread; one that crosses a
// stripe is cut. A flush covers every group. A sequential stream is a sequential stream in each
// group too, so readahead and bypass work as before. Knobs in bytes that a node has once (the read
// cache, the length of a stream, the scrubber's rate) are divided among the groups; a destage batch
// and its parallelism are a group's.
//
// What one group cannot do (a fenced log, a full capacity tier) fails the requests that touch it;
// the others go on.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "storage-backend/volume/group_set.h"
#include "storage-backend/volume/op_stats.h"
#include "storage-backend/volume/volume.h"
#include "storage-backend/volume/volume_impl.h"

namespace ebb::storage {

// Adds counters and gauges of `part`; shares weigh by cache space.
void AddMetrics(VolumeMetrics& total, const VolumeMetrics& part);

class StripedVolume final : public Volume {
 public:
  // Two groups or more. Refuses groups that are not together one node, before anything is written.
  static absl::StatusOr<std::unique_ptr<Volume>> Open(const VolumeConfig& config,
                                                      std::vector<VolumeParts> groups, Clock& clock,
                                                      const std::function<void(double)>& progress);

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override;
  absl::Status Write(uint64_t offset, std::span<const std::byte> in, bool fua) override;
  absl::Status WriteZeroes(uint64_t offset, uint64_t bytes, bool fua) override;
  absl::Status Trim(uint64_t offset, uint64_t bytes, bool fua) override;
  absl::Status Flush() override;
  absl::Status Apply(const Setting& setting) override;
  Setting CurrentSetting() const override;
  VolumeMetrics Metrics() override;
  std::vector<VolumeNotice> CheckHealth() override;
  absl::Status Drain(const std::function<bool(uint64_t dirty_bytes)>& progress) override;
  absl::StatusOr<bool> RunBackgroundStep() override;
  absl::Status Close() override;
  uint64_t volume_bytes() const override { return volume_bytes_; }
  std::string Describe() const override;
  std::string uuid() const override { return groups_[0]->uuid(); }

  std::unique_ptr<RequestQueue> MakeQueue(size_t depth) override;

 private:
  friend class StripedQueue;

  StripedVolume(const VolumeConfig& config, Clock& clock, size_t group_count)
      : config_(config), clock_(clock), layout_{static_cast<uint32_t>(group_count)} {}

  absl::Status OpenGroups(std::vector<VolumeParts> parts,
                          const std::function<void(double)>& progress);
  // What of `setting` is `group`'s.
  Setting ShareOf(const Setting& setting, uint32_t group) const;
  // Calls verb(group, offset in it, position in the request, bytes) for each piece, until one
  // fails.
  absl::Status ForEachPiece(
      uint64_t offset, uint64_t bytes,
      const std::function<absl::Status(Volume&, uint64_t, uint64_t, uint64_t)>& verb);
  // Calls verb(group, offset in it, bytes) for each group that the range touches.
  absl::Status ForEachRange(uint64_t offset, uint64_t bytes,
                            const std::function<absl::Status(Volume&, uint64_t, uint64_t)>& verb);
  absl::Status CheckRange(uint64_t offset, uint64_t bytes) const;
  absl::Status Finish(Op op, uint64_t bytes, uint64_t begin_ns, absl::Status status);
  // Runs `work` for each group, side by side where the volume may have threads; the first error.
  absl::Status AllGroups(const std::function<absl::Status(uint32_t)>& work) const;

  const VolumeConfig config_;
  Clock& clock_;
  const StripeLayout layout_;
  uint64_t volume_bytes_ = 0;
  std::vector<std::unique_ptr<Volume>> groups_;
  OpStats stats_;  // requests as clients see them: a cut one counts once
  mutable std::mutex setting_mutex_;
  Setting setting_;
};

}  // namespace ebb::storage
