// What tells one device of a family from another: the numbers of FlashModel and of DiskModel.
//
// The named classes of service_model.h are such numbers taken from data sheets; others come from
// measuring a device (`ebb twin fit`). Times are ns, rates bytes a ns (1 = 1 GB/s).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "absl/status/status.h"

namespace ebb::storage {

struct FlashParameters {
  size_t dies = 1;
  double read_ns = 0;        // one page from a die
  double program_ns = 0;     // one program unit
  double suspend_ns = 0;     // the longest that a read waits for a program
  double command_ns = 0;     // time on the link for a command, besides its data
  double controller_ns = 0;  // latency of a read outside dies and link
  double write_ack_ns = 0;   // latency of a write into the buffer
  double flush_ns = 0;
  double link_bytes_per_ns = 0;  // 1 = 1 GB/s
  uint64_t page_bytes = 0;
  uint64_t program_unit_bytes = 0;
  uint64_t buffer_bytes = 0;
};

struct DiskParameters {
  double revolution_ns = 0;
  double bytes_per_ns = 0;  // under the head
  double link_bytes_per_ns = 0;
  double overhead_ns = 0;  // command decoding and completion
  // Seek over a share d of the disk: seek_min_ns + seek_slope_ns * sqrt(d). Random pairs have a
  // mean sqrt(d) of 8/15.
  double seek_min_ns = 0;
  double seek_slope_ns = 0;
  uint64_t cache_bytes = 0;  // the part of the buffer used for writes
};

using ServiceParameters = std::variant<FlashParameters, DiskParameters>;

// Those of a named class; nullopt when there is none.
std::optional<ServiceParameters> ServiceParametersOf(std::string_view name);

// InvalidArgument when no device could be like this.
absl::Status CheckServiceParameters(const ServiceParameters& parameters);

}  // namespace ebb::storage
