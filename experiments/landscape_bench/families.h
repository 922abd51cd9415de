// The landscape's workload families: shapes of loads, without a rate.
//
// A family is one or several synthesised streams (env/trace/synth.h) that run at the same time. How
// fast it is asked for is decided for each node, so that a disk and a flash device are loaded
// alike.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "env/twin/request_stream.h"

namespace ebb::landscape_bench {

struct FamilyStream {
  std::string_view preset;  // where its parameters begin; empty: synth's defaults
  // Phases of equal length that follow each other twice, each as "name=value,..."; `rate` is the
  // share of the family's mean rate.
  std::vector<std::string_view> phases;
};

struct Family {
  std::string_view name;
  std::string_view what;
  // Of the rate at which a node on the default setting answers sixteen clients that wait.
  double utilisation = 0.6;
  std::vector<FamilyStream> streams;
};

std::span<const Family> Families();

// `seconds` of the family at a mean rate of `ops_per_s`. Same arguments, same load. InvalidArgument
// when it does not fit the volume.
absl::StatusOr<twin::RequestStream> MakeFamilyLoad(const Family& family, double ops_per_s,
                                                   double seconds, uint64_t volume_bytes,
                                                   uint64_t seed);

}  // namespace ebb::landscape_bench
