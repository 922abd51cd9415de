#include "experiments/fidelity_bench/twin_node.h"

#include "base/status.h"
#include "env/twin/simulator.h"

namespace ebb::fidelity_bench {

twin::NodeModel TwinModel(const twin::NodeModel& costs, const NodeShape& shape) {
  twin::NodeModel model = costs;
  model.volume_bytes = shape.volume_bytes;
  model.cache_bytes = shape.cache_bytes;
  model.cache_device = shape.cache_model;
  model.cache_speed = shape.cache_speed;
  model.capacity_bytes = shape.capacity_bytes;
  model.capacity_device = shape.capacity_model;
  model.capacity_speed = shape.capacity_speed;
  model.capacity_count = shape.capacity_count;
  model.host_memory_bytes = shape.host_memory_bytes;
  model.workers = kClientThreads;
  model.client_overhead_ns = 0;
  model.prefilled = true;
  model.prefill_compressed_per_mille = kPrefillPerMille;
  return model;
}

absl::StatusOr<Outcome> RunTwin(const twin::NodeModel& model, const twin::RequestStream& stream,
                                const storage::Setting& setting, const RunTimes& times,
                                uint64_t seed) {
  EBB_ASSIGN_OR_RETURN(
      const auto simulator,
      twin::Simulator::Make({.node = model, .setting = setting, .seed = seed}, stream));
  simulator->WarmUp(times.warm_up_passes);
  simulator->RunWindow(times.settle_seconds);
  const twin::WindowResult window = simulator->RunWindow(times.measure_seconds);
  Outcome outcome;
  outcome.metrics = window.metrics;
  outcome.log_fill = window.metrics.dirty_share;
  outcome.bytes_per_s =
      static_cast<double>(window.metrics.read.bytes + window.metrics.write.bytes) /
      times.measure_seconds;
  const double blocks = static_cast<double>(window.read_blocks_dram + window.read_blocks_cache +
                                            window.read_blocks_capacity);
  if (blocks > 0) {
    outcome.dram_share = static_cast<double>(window.read_blocks_dram) / blocks;
    outcome.cache_share = static_cast<double>(window.read_blocks_cache) / blocks;
  }
  outcome.destage_batches = window.destage_batches;
  outcome.coalesced_blocks = window.coalesced_blocks;
  outcome.late_ns = window.late_ns;
  return outcome;
}

}  // namespace ebb::fidelity_bench
