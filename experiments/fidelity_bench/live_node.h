// LiveNode: real volumes in this process, over devices in memory that take the time of their
// service models, under a load that comes when it comes.
//
// A run makes a new volume, fills it and lets the load pass without time (devices answer at once),
// opens the gate, lets the load come at its times from sixteen threads, and measures a window of it
// as a node does: from entry to return of each verb. One run at a time.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "env/observation.h"
#include "experiments/fidelity_bench/workload.h"
#include "storage-backend/device/mem_device.h"
#include "storage-backend/knobs/knobs.h"
#include "storage-backend/volume/volume.h"

namespace ebb::fidelity_bench {

inline constexpr int kClientThreads = 16;

struct RunTimes {
  double settle_seconds = 0.5;
  double measure_seconds = 2.5;
  int warm_up_passes = 2;
};

// What a run showed.
struct Outcome {
  env::WindowMetrics metrics;
  double log_fill = 0;  // of the write space, at the window's end
  double bytes_per_s = 0;
  double dram_share = 0;   // of blocks read
  double cache_share = 0;  // likewise, from the cache log
  uint64_t destage_batches = 0;
  uint64_t coalesced_blocks = 0;
  uint64_t late_ns = 0;  // how far the clients were behind the load's times at the end
};

class LiveNode {
 public:
  // `metadata_dir` is emptied by each run.
  explicit LiveNode(std::string metadata_dir);
  ~LiveNode();

  absl::StatusOr<Outcome> Run(const Workload& workload, const storage::Setting& setting,
                              const RunTimes& times, uint64_t seed);

  // Processor time that the clients themselves take for a request of this load, in ns.
  double ClientCostNs(const Workload& workload, double seconds);

 private:
  struct Clients;

  absl::StatusOr<std::unique_ptr<storage::Volume>> Open(const Workload& workload,
                                                        const storage::Setting& setting,
                                                        Clock& clock, uint64_t seed);
  absl::Status Prefill(storage::Volume& volume, const Workload& workload,
                       const storage::Setting& setting);
  absl::Status WarmUp(storage::Volume& volume, const Workload& workload,
                      const storage::Setting& setting, const RunTimes& times);

  const std::string metadata_dir_;
  // Kept from run to run: touching memory costs more than a run.
  std::vector<std::unique_ptr<storage::MemDevice>> memory_;
  std::vector<AlignedBuffer> buffers_;  // of the clients
};

}  // namespace ebb::fidelity_bench
