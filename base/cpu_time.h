// Processor time, user and system, in seconds: for benches and for what is measured to be modelled.
#pragma once

#include <ctime>

namespace ebb {

namespace internal {
inline double CpuSeconds(clockid_t clock) {
  timespec used{};
  clock_gettime(clock, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}
}  // namespace internal

// Of all threads of this process.
inline double ProcessCpuSeconds() { return internal::CpuSeconds(CLOCK_PROCESS_CPUTIME_ID); }
// Of the calling thread.
inline double ThreadCpuSeconds() { return internal::CpuSeconds(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace ebb
