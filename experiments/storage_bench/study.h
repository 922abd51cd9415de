// Study: one part of the storage bench, run once in each repeat.
//
// Repeats run study after study, so that figure and peers see the same minutes of the machine. A
// study may keep its volumes between repeats; it leaves nothing running that would take time from
// the others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/storage_bench/figures.h"

namespace ebb::storage_bench {

struct BenchOptions {
  bool quick = false;        // shorter phases: for tests of the bench, not for figures
  std::string memory_dir;    // scratch in memory
  std::string disk_dir;      // scratch on the real disk
  std::string program_path;  // this program
};

class Study {
 public:
  virtual ~Study() = default;
  virtual std::string name() const = 0;
  // Adds one sample to each of its series.
  virtual absl::Status RunOnce(Samples& samples) = 0;
};

std::unique_ptr<Study> MakeEngineStudy(const BenchOptions& options);
std::unique_ptr<Study> MakeMemoryStudy(const BenchOptions& options);
std::unique_ptr<Study> MakeNbdTmpfsStudy(const BenchOptions& options);
std::unique_ptr<Study> MakeNbdDiskStudy(const BenchOptions& options);
std::unique_ptr<Study> MakeThrottleStudy(const BenchOptions& options);
std::unique_ptr<Study> MakeDestageStudy(const BenchOptions& options);
std::unique_ptr<Study> MakeDestageCodecStudy(const BenchOptions& options);
std::unique_ptr<Study> MakeRecoveryStudy(const BenchOptions& options);

// For the memory study, in a process of its own: prints how much resident memory a volume with a
// full cache of `cache_bytes` took, and the cached blocks.
absl::Status ProbeMemory(uint64_t cache_bytes);

}  // namespace ebb::storage_bench
