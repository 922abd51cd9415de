// Fits a service model to what probes of a device showed.
//
// Both families (flash, disk) are tried from the named classes as they are and as many times slower
// or faster as the device is; then each parameter is moved as long as the model's own answers to
// the same probes come nearer to the device's. What the probes cannot see keeps the class's value.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "env/twin/fit/device_probe.h"
#include "storage-backend/device/service_parameters.h"

namespace ebb::twin {

struct DeviceFit {
  storage::ServiceParameters parameters;
  std::string nearest_class = {};  // where the search began
  ProbeFigures answers = {};       // of the fitted model
  double error_median = 0;         // |model / device - 1| over the figures measured
  double error_max = 0;
  std::string worst_figure = {};
};

// `options` as the probes were made. InvalidArgument when a read figure is missing or impossible.
absl::StatusOr<DeviceFit> FitDevice(const ProbeFigures& measured, uint64_t device_bytes,
                                    const ProbeOptions& options);

// A line a figure: measured, fitted, error.
std::string FitTable(const ProbeFigures& measured, const DeviceFit& fit);

}  // namespace ebb::twin
