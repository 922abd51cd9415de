// Trip conditions for a lease: what the node itself checks every 100 ms while a candidate runs.
//
// Derived from the incumbent's own recent windows, so that they mean "far outside of what this
// node does today" and not a number somebody once typed. Generous on purpose: they cut disasters
// short, the verdict on small differences belongs to TrialProtocol.
#pragma once

#include <vector>

#include "env/environment.h"

namespace ebb::engine {

struct TripWireConfig {
  double p99_factor = 5;              // times the incumbent's worst recent p99
  double p99_floor_us = 20'000;       // never trips below this
  double throughput_share_min = 0.2;  // of the incumbent's worst recent window
};

// `recent`: valid windows of the incumbent, any order. Without any, only errors trip.
env::TripConditions TripsFor(const std::vector<env::Observation>& recent,
                             const TripWireConfig& config);

}  // namespace ebb::engine
