// One run of fio and what it measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/storage_bench/figures.h"

namespace ebb::storage_bench {

struct FioResult {
  double ops_per_s = 0;
  double bytes_per_s = 0;
  double ops = 0;
  double p50_us = 0;
  double p99_us = 0;
};

// Reads fio's JSON of one job that either reads or writes.
absl::StatusOr<FioResult> ParseFioJson(std::string_view text);

// Runs one job with `arguments` ("--rw=randread", ...); scratch files go to `scratch_dir`.
absl::StatusOr<FioResult> RunFio(std::vector<std::string> arguments,
                                 const std::string& scratch_dir);

void AddFioSamples(const std::string& series, const FioResult& result, Samples& samples);

}  // namespace ebb::storage_bench
