// EBB_CHECK stops the process when our own invariant is broken, in release builds too.
//
// For faults of the world (disks, peers, input) return absl::Status instead: see base/status.h.
#pragma once

namespace ebb {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace ebb

#define EBB_CHECK(condition)                              \
  do {                                                    \
    if (!(condition)) [[unlikely]]                        \
      ::ebb::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)
