// What the history bench measures on a history's files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "experiments/storage_bench/figures.h"

namespace ebb::history_bench {

// Until it is as large as wanted, or `stop` tells otherwise (Cancelled). Ends as a killed daemon
// does: with what it wrote last in the log only.
absl::Status Generate(const std::string& directory, uint64_t events,
                      const std::function<bool()>& stop, storage_bench::Samples& samples);

// From nothing in the page cache to a history that answers what a starting daemon asks.
absl::Status MeasureOpen(const std::string& directory, storage_bench::Samples& samples);

// Changes of one day, by each filter.
absl::Status MeasureQueries(const std::string& directory, uint64_t repeats,
                            storage_bench::Samples& samples);

// Size on disk, and the whole chain recomputed.
absl::Status MeasureSizeAndVerify(const std::string& directory, storage_bench::Samples& samples);

}  // namespace ebb::history_bench
