// How a bench begins and ends: its arguments, and what its exit code says.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "absl/status/statusor.h"
#include "experiments/storage_bench/bench_report.h"

namespace ebb::storage_bench {

// Adds to `app`'s options those of every bench (--out, --commit), reads the arguments and runs
// `bench`. 0: every bar holds; 1: one does not; 2: there are no figures, and why stands on standard
// error.
int BenchMain(CLI::App& app, int argc, char** argv, BenchRun& run,
              const std::function<absl::StatusOr<bool>()>& bench);

}  // namespace ebb::storage_bench
