// What tells one device of a family from another: the numbers of FlashModel and of DiskModel.
//
// The named classes of service_model.h are such numbers taken from data sheets; others come from
// measuring a device (`ebb twin fit`). Times are ns, rates bytes a ns (1 = 1 GB/s).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
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

struct ServiceParameterInfo {
  // A device that is n times faster has n times shorter times and n times the rates. A grain is
  // into which pieces it cuts data.
  enum class Kind { kTime, kRate, kSize, kGrain };

  const char* name;
  Kind kind;
  double min;
  double max;
};

// Calls `visit(info, value)` for each number, in a fixed order: all that is to be done with every
// one of them (files, checks, searches) goes through here. `parameters` may be const.
template <typename Flash, typename Visitor>
requires std::is_same_v<std::remove_const_t<Flash>, FlashParameters>
void VisitParameters(Flash& parameters, Visitor&& visit) {
  using Info = ServiceParameterInfo;
  using enum Info::Kind;
  visit(Info{"dies", kSize, 1, 4096}, parameters.dies);
  visit(Info{"read_ns", kTime, 1, 1e11}, parameters.read_ns);
  visit(Info{"program_ns", kTime, 1, 1e11}, parameters.program_ns);
  visit(Info{"suspend_ns", kTime, 0, 1e11}, parameters.suspend_ns);
  visit(Info{"command_ns", kTime, 0, 1e11}, parameters.command_ns);
  visit(Info{"controller_ns", kTime, 0, 1e11}, parameters.controller_ns);
  visit(Info{"write_ack_ns", kTime, 0, 1e11}, parameters.write_ack_ns);
  visit(Info{"flush_ns", kTime, 0, 1e11}, parameters.flush_ns);
  visit(Info{"link_bytes_per_ns", kRate, 1e-6, 1e4}, parameters.link_bytes_per_ns);
  visit(Info{"page_bytes", kGrain, 512, 0x1p24}, parameters.page_bytes);
  visit(Info{"program_unit_bytes", kGrain, 512, 0x1p30}, parameters.program_unit_bytes);
  visit(Info{"buffer_bytes", kSize, 512, 0x1p36}, parameters.buffer_bytes);
}
template <typename Disk, typename Visitor>
requires std::is_same_v<std::remove_const_t<Disk>, DiskParameters>
void VisitParameters(Disk& parameters, Visitor&& visit) {
  using Info = ServiceParameterInfo;
  using enum Info::Kind;
  visit(Info{"revolution_ns", kTime, 1, 1e12}, parameters.revolution_ns);
  visit(Info{"bytes_per_ns", kRate, 1e-6, 1e4}, parameters.bytes_per_ns);
  visit(Info{"link_bytes_per_ns", kRate, 1e-6, 1e4}, parameters.link_bytes_per_ns);
  visit(Info{"overhead_ns", kTime, 0, 1e12}, parameters.overhead_ns);
  visit(Info{"seek_min_ns", kTime, 0, 1e12}, parameters.seek_min_ns);
  visit(Info{"seek_slope_ns", kTime, 0, 1e12}, parameters.seek_slope_ns);
  visit(Info{"cache_bytes", kSize, 512, 0x1p36}, parameters.cache_bytes);
}
template <typename Visitor>
void VisitParameters(ServiceParameters& parameters, Visitor&& visit) {
  std::visit([&](auto& family) { VisitParameters(family, visit); }, parameters);
}
template <typename Visitor>
void VisitParameters(const ServiceParameters& parameters, Visitor&& visit) {
  std::visit([&](const auto& family) { VisitParameters(family, visit); }, parameters);
}

// A device that is `speed` times faster.
template <typename Parameters>
Parameters Faster(Parameters parameters, double speed) {
  VisitParameters(parameters, [speed](const ServiceParameterInfo& info, auto& value) {
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(value)>, double>) {
      value = info.kind == ServiceParameterInfo::Kind::kTime ? value / speed : value * speed;
    }
  });
  return parameters;
}

// Those of a named class; nullopt when there is none.
std::optional<ServiceParameters> ServiceParametersOf(std::string_view name);

// InvalidArgument when no device could be like this.
absl::Status CheckServiceParameters(const ServiceParameters& parameters);

}  // namespace ebb::storage
