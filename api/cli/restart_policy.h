// RestartPolicy: when the supervisor of a node starts it again. Pure: time is an argument.
//
// Only a crash is answered by a new start, which recovers the node: whoever stopped or killed it
// meant it, and an exit code comes with a reason that a new start would meet again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace ebb::cli {

class RestartPolicy {
 public:
  static constexpr size_t kCrashesMax = 5;  // within kWindowNs; then it is left down
  static constexpr uint64_t kWindowNs = 60'000'000'000;

  // The node ended at `now_ns` with this state of waitpid.
  bool StartsAgain(int wait_state, uint64_t now_ns);

 private:
  std::deque<uint64_t> crashes_ns_;
};

}  // namespace ebb::cli
