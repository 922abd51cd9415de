// A seeded workload over a CrashNode and the oracle that judges what came back.
//
// The oracle keeps, for each block, every version that may be read after a power cut: the last that
// a completed flush covered and all later ones, acknowledged or in flight. After recovery exactly
// one of them must be there, and it must stay.
#pragma once

#include <string>
#include <vector>

#include "base/rng.h"
#include "tests/storage-backend/crash/crash_node.h"

namespace ebb::storage {

class BlockOracle {
 public:
  explicit BlockOracle(uint64_t blocks)
      : versions_(blocks, {{.version = 0, .acknowledged = true}}) {}
  // Before the verb: from now on the block may have this version.
  void Offer(uint64_t block, uint64_t version) { versions_[block].push_back({version, false}); }
  // The verb of the last offer has returned OK.
  void Acknowledge(uint64_t block) { versions_[block].back().acknowledged = true; }
  uint64_t Current(uint64_t block) const { return versions_[block].back().version; }
  // A flush that began after all that was acknowledged has completed.
  void Flushed() {
    for (uint64_t block = 0; block < versions_.size(); ++block) FlushedBlock(block);
  }
  void FlushedBlock(uint64_t block);
  // What recovery brought back; false when the block must not have that version.
  bool Settle(uint64_t block, uint64_t version);
  bool Allows(uint64_t block, uint64_t version) const;
  std::string Allowed(uint64_t block) const;
  uint64_t blocks() const { return versions_.size(); }

 private:
  struct Candidate {
    uint64_t version = 0;
    bool acknowledged = false;
  };
  std::vector<std::vector<Candidate>> versions_;
};

class CrashWorkload {
 public:
  CrashWorkload(CrashNode& node, uint64_t seed, uint64_t blocks)
      : node_(node), rng_(seed), oracle_(blocks) {}

  // From now on a device may fail: verbs may return errors, but a read that succeeds must still be
  // right.
  void ExpectErrors(bool expected) { errors_expected_ = expected; }
  uint64_t errors_seen() const { return errors_seen_; }

  // Runs `steps` steps, or fewer when the power fails. A fault that has nothing to do with power is
  // returned in words; empty otherwise.
  std::string Run(int steps);
  // A clean stop; the node is closed then.
  std::string Stop();
  // Everything to the capacity tier, with some writes coming in meanwhile.
  std::string Drain();
  // The caches' shares change at each step, with reads and writes between.
  std::string Resize(int steps);
  // Leaves the capacity tier with nearly empty segments; Compact moves what lives in them together,
  // again and again as more is overwritten.
  std::string Scatter();
  std::string Compact();
  // Opens the node after a reboot or kill and judges every block and its statistics.
  std::string Recover();
  // Judges every block without a restart.
  std::string Verify();

 private:
  std::string Step();
  // "" when the status is OK, expected, or the power is off; else the status in words.
  std::string Judge(const char* verb, const absl::Status& status);
  std::string Write(uint64_t block, uint64_t count);
  std::string Zero(uint64_t block, uint64_t count);
  std::string Read(uint64_t block, uint64_t count);
  // Each block with this chance, then a drain.
  std::string Overwrite(double share);
  std::string Reopen();
  void ChangeKnobs();

  CrashNode& node_;
  Rng rng_;
  BlockOracle oracle_;
  uint64_t version_ = 0;
  bool errors_expected_ = false;
  uint64_t errors_seen_ = 0;
};

}  // namespace ebb::storage
