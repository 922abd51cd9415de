// Probes: what a device answers to a dozen simple loads, one after the other.
//
// The same loads are run on a real device and, in simulated time, on a service model, so the two
// can be compared figure by figure: that is what fitting a model means (device_fit.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage-backend/device/device.h"
#include "storage-backend/device/service_model.h"

namespace ebb::twin {

struct ProbeLoad {
  enum class Kind : uint8_t { kRead, kWrite, kFlushedWrite, kReadBehindWrites };

  const char* name = "";  // for people
  Kind kind = Kind::kRead;
  bool sequential = false;
  uint64_t bytes = 4096;
  size_t depth = 1;
  size_t count = 0;
  double span_share = 1;  // of the device
};

// What one load showed; times are medians.
struct ProbeAnswer {
  double latency_ns = 0;  // of a flushed write: the flush alone; behind writes: the reads alone
  double bytes_per_s = 0;
  double first_bytes_per_s = 0;  // of the first eighth
  double last_bytes_per_s = 0;   // of the last half
};

inline constexpr size_t kReadProbes = 8;
inline constexpr size_t kProbes = 12;
// Reads first; the others write.
const std::array<ProbeLoad, kProbes>& ProbeLoads();

// The figures that a fit compares, in a fixed order; 0: not measured.
inline constexpr size_t kProbeFigures = 16;
struct ProbeFigures {
  std::array<double, kProbeFigures> value{};
};
std::string_view ProbeFigureName(size_t figure);
bool ProbeFigureIsRate(size_t figure);  // bytes a second, not ns
ProbeFigures FiguresOf(const std::array<ProbeAnswer, kProbes>& answers);

struct ProbeOptions {
  bool writes = false;     // destroys what is on the device
  bool quick = false;      // a quarter of the requests
  double seconds_max = 4;  // of one load
  std::function<void(double share, std::string_view what)> on_progress = {};
};

// In real time.
absl::StatusOr<ProbeFigures> ProbeDevice(storage::Device& device, const ProbeOptions& options);
// In simulated time, all loads; same model and seed, same figures. Of `options` the counts only.
ProbeFigures ProbeModel(storage::ServiceModel& model, uint64_t device_bytes,
                        const ProbeOptions& options);

}  // namespace ebb::twin
