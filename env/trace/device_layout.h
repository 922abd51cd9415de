// DeviceLayout puts the devices of a trace one after the other on a single one.
//
// Equal offsets of different devices must not become one place: that would invent overwrites and
// cache hits. Two passes over the trace: Learn every record, Settle, then Place every record.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/trace/trace_format.h"

namespace ebb::env {

class DeviceLayout {
 public:
  // ResourceExhausted beyond a million devices.
  absl::Status Learn(const trace::TraceRecord& record);
  // Fixes the places, in the order in which devices came first, each at a whole MiB; returns the
  // bytes needed. OutOfRange beyond 2^63.
  absl::StatusOr<uint64_t> Settle();
  // Where `record`, which was learned, begins on the single device.
  uint64_t Place(const trace::TraceRecord& record) const;

  size_t device_count() const { return devices_.size(); }

 private:
  struct Device {
    size_t number = 0;
    uint64_t end = 0;
    uint64_t begin_on_target = 0;
  };

  absl::flat_hash_map<uint64_t, Device> devices_;
};

}  // namespace ebb::env
