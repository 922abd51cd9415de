// How a bench ends: its table on standard output, its JSON file, and whether every bar holds.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/storage_bench/figures.h"

namespace ebb::storage_bench {

struct BenchRun {
  std::string bench;          // its name for ./dev bench
  std::string out_path = {};  // of the JSON; empty: none
  std::string commit = "unknown";
  int repeats = 1;
  bool quick = false;
  double load_average_at_start = 0;
};

double LoadAverage();  // of the last minute

// False when a bar does not hold. Internal when the file cannot be written.
absl::StatusOr<bool> Report(const BenchRun& run, std::span<const FigureSpec> specs,
                            const Samples& samples);

}  // namespace ebb::storage_bench
