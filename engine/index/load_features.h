// LoadFeatures: the load of a window as numbers that tuning does not move.
//
// Clients in a closed loop (each waits for its answer before it sends the next request) send faster
// when the store gets faster, so their rate tells about the setting, not about the load; what they
// hold constant is how many requests are under way. Clients in an open loop hold their rate. The
// environment tells the two apart and fills in only the one that is given (observation.h). Rule,
// per window: with at least kClosedLoopInFlight clients the load counts as closed and its size is
// log(clients); below that it counts as open and its size is log(offered rate). An open loop that
// overruns the store looks closed: its windows are then compared with others of the same queue,
// which hides part of a gain and never invents one.
//
// Left out on purpose: the working set of the last minute and burstiness, because with closed-loop
// clients both follow the speed of the store.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "env/observation.h"

namespace ebb::engine {

inline constexpr double kClosedLoopInFlight = 0.8;
inline constexpr size_t kLoadFeatureCount = 5;

struct LoadFeatures {
  bool closed_loop = false;
  // Scaled so that a distance of 1 is a load that differs visibly: load size by a factor of 1.5,
  // read share by 0.15, mean sizes by a factor of 2, sequential share by 0.25.
  std::array<double, kLoadFeatureCount> value{};
};

LoadFeatures FeaturesOf(const env::WorkloadDescriptor& descriptor);
// Whether the window carried any load; an idle window says nothing.
bool HasLoad(const env::WorkloadDescriptor& descriptor);
std::string_view LoadFeatureWord(size_t feature);

// The features as people name them; a kind without traffic has the size of a stray request.
struct LoadShape {
  double load_size = 0;  // requests waiting (closed loop) or a second (open loop)
  double read_share = 0;
  double mean_read_bytes = 0;
  double mean_write_bytes = 0;
};
LoadShape ShapeOf(const LoadFeatures& features);
// Squared distance; infinite between a closed and an open loop.
double SquaredDistance(const LoadFeatures& a, const LoadFeatures& b);

}  // namespace ebb::engine
