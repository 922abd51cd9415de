// Processor time of this process, for benches: all its threads, user and system, in seconds.
#pragma once

#include <ctime>

namespace ebb {

inline double ProcessCpuSeconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

}  // namespace ebb
