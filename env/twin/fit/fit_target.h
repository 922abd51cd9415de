// What `ebb twin fit` measures: a file or block device, or a shaped device in memory.
//
// Reads only, unless nothing can be lost: a file that was not there is made, written and removed
// again; an existing device is written to only when `overwrite` is set, and never when it holds a
// store of Ebb's.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "env/twin/fit/device_fit.h"

namespace ebb::twin {

struct FitTarget {
  std::string path = {};      // or
  std::string shape = {};     // a service model's name
  double speed = 1;           // of the shape
  uint64_t create_bytes = 0;  // a path that is not there becomes a file of this size; 0: refused
  bool overwrite = false;
};

struct FittedDevice {
  std::string description;
  bool wrote = false;  // else the parameters of writes are those of a named class
  ProbeFigures measured = {};
  DeviceFit fit = {};
};

// NotFound, FailedPrecondition or InvalidArgument with what to do about it.
absl::StatusOr<FittedDevice> MeasureAndFit(const FitTarget& target, ProbeOptions options);

}  // namespace ebb::twin
