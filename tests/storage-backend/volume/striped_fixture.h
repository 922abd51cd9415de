// A node of several disk groups on simulated disks whose power fails together, metadata included,
// and the workload that judges what comes back.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "storage-backend/device/faulty_device.h"
#include "storage-backend/metadata/mem_metadata.h"
#include "storage-backend/volume/striped_volume.h"

namespace ebb::storage {

class StripedTestNode {
 public:
  // `seed` decides the node's UUID and what the disks keep when power fails.
  StripedTestNode(size_t group_count, uint64_t seed);

  // Opens the groups in the order given (all in their own by default); kills an open volume first.
  absl::Status Open(std::vector<size_t> order = {});
  void Kill() { volume_.reset(); }
  // The power fails if it has not yet, and comes back.
  void Reboot(uint64_t seed);

  struct Group {
    std::shared_ptr<FaultyDisk> cache;
    std::vector<std::shared_ptr<FaultyDisk>> capacity;
    std::unique_ptr<MemMetadata> metadata;
  };
  bool is_open() const { return volume_ != nullptr; }
  Volume& volume() { return *volume_; }
  Group& group(size_t i) { return groups_[i]; }
  // Makes one group anew, blank; the old one is returned.
  Group Replace(size_t i);
  PowerSource& power() { return *power_; }
  VolumeConfig& config() { return config_; }
  ManualClock& clock() { return clock_; }
  size_t group_count() const { return groups_.size(); }

 private:
  Group MakeGroup(size_t i);

  const uint64_t seed_;
  ManualClock clock_;
  std::shared_ptr<PowerSource> power_;
  std::vector<Group> groups_;
  VolumeConfig config_;
  std::unique_ptr<Volume> volume_;
};

// Random verbs around the borders of stripes. Keeps, for each block, every version that may be
// there after a power cut.
class StripedWorkload {
 public:
  StripedWorkload(StripedTestNode& node, uint64_t seed);

  // Runs steps until the power fails; what is wrong in words, or empty.
  std::string Run(int steps);
  // Opens the node and judges every block.
  std::string Recover();
  std::string VerifyAll();

 private:
  struct Candidates {
    std::vector<uint64_t> versions = {0};  // the last flushed one first
  };

  std::string Step();
  std::string Judge(const char* verb, const absl::Status& status) const;
  std::string Write(uint64_t block, uint64_t count, bool fua);
  std::string Zero(uint64_t block, uint64_t count);
  std::string Verify(uint64_t block, uint64_t count);
  std::string Reopen();
  uint64_t PickBlock();

  StripedTestNode& node_;
  Rng rng_;
  std::vector<Candidates> blocks_;
  uint64_t version_ = 0;
};

}  // namespace ebb::storage
