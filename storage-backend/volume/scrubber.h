// Scrubber reads a volume's live blocks round and round, slowly, and reports damage while there may
// still be a good copy elsewhere.
//
// The rate is an upper bound on what it reads, in MiB a second; 0 stops it where it is. Blocks that
// hold nothing cost little but not nothing, so that a sparse volume does not make it spin. Step is
// the whole of it, with the time as an argument; Start lets a thread of its own call it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "storage-backend/volume/block_verifier.h"

namespace ebb::storage {

class Scrubber {
 public:
  struct Progress {
    uint64_t scanned_bytes = 0;   // read and verified, cumulative
    uint64_t damaged_blocks = 0;  // found, cumulative: again in each pass
    uint64_t passes = 0;          // completed
    double share = 0;             // of the pass under way
  };

  // `report` gets a sentence about damage, from the thread that calls Step.
  Scrubber(BlockVerifier verifier, uint64_t volume_blocks, Clock& clock,
           std::function<void(std::string)> report);
  ~Scrubber() { Stop(); }

  void SetRateMibps(uint64_t rate);
  // Verifies the next piece if it is due at `now_ns`; returns when to call again, UINT64_MAX while
  // it is off. One caller at a time.
  uint64_t Step(uint64_t now_ns);

  void Start();
  void Stop();

  Progress progress() const;

 private:
  static constexpr uint64_t kNever = UINT64_MAX;
  // A pass tells of so many damaged blocks in words, then only their number.
  static constexpr uint64_t kToldMax = 10;

  uint64_t DueNs(uint64_t rate) const;
  void VerifyPiece();
  void EndPass();
  void Run();

  BlockVerifier verifier_;
  const uint64_t volume_blocks_;
  Clock& clock_;
  const std::function<void(std::string)> report_;

  std::atomic<uint64_t> rate_mibps_{0};
  // Of the caller of Step.
  uint64_t next_block_ = 0;
  uint64_t owed_bytes_ = 0;  // scanned since owed_since_ns_, which the rate has yet to allow
  uint64_t owed_since_ns_ = 0;
  uint64_t damaged_in_pass_ = 0;

  mutable std::mutex mutex_;
  Progress progress_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool changed_ = false;
  std::thread thread_;
};

}  // namespace ebb::storage
