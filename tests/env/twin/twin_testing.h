// Small nodes and loads for the twin's tests.
#pragma once

#include <memory>
#include <vector>

#include "base/trace/trace_format.h"
#include "base/units.h"
#include "env/twin/simulator.h"
#include "env/twin/trace_load.h"
#include "gtest/gtest.h"

namespace ebb::twin {

// A cache of 64 MiB over two flash devices of 512 MiB, a volume of 512 MiB.
inline NodeModel SmallNode() {
  NodeModel node;
  node.volume_bytes = 512 * kMiB;
  node.cache_bytes = 64 * kMiB;
  node.capacity_bytes = 512 * kMiB;
  node.capacity_device = "sata-ssd";
  return node;
}

inline env::SynthPhase SmallLoad() {
  env::SynthPhase load;
  load.duration_ns = 10 * kNsPerS;
  load.ops_per_s = 2'000;
  load.working_set_bytes = 256 * kMiB;
  load.zipf_skew = 0.9;
  load.compressible_share = 0.6;
  return load;
}

inline RequestStream MakeLoad(const env::SynthPhase& phase, uint64_t volume_bytes) {
  auto load = SynthesiseLoad({.phases = {phase}}, volume_bytes);
  EXPECT_TRUE(load.ok()) << load.status();
  return load.ok() ? *std::move(load) : RequestStream(volume_bytes);
}

inline RequestStream MakeLoad(const std::vector<trace::TraceRecord>& records, uint64_t volume_bytes,
                              uint64_t duration_ns = kNsPerS) {
  RequestStream load(volume_bytes);
  for (const trace::TraceRecord& record : records) load.Add(record);
  load.Close(duration_ns);
  return load;
}

inline std::unique_ptr<Simulator> MakeSimulator(const SimulatorConfig& config,
                                                const RequestStream& load) {
  auto simulator = Simulator::Make(config, load);
  EXPECT_TRUE(simulator.ok()) << simulator.status();
  return simulator.ok() ? *std::move(simulator) : nullptr;
}

}  // namespace ebb::twin
