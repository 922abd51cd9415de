// Progress: one line on the terminal that says how far something is and how long it will take.
//
// Nothing is written where stderr is no terminal. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace ebb::cli {

// "43 %, about 1 min 20 s left"; without a share (negative) only `detail`.
std::string ProgressText(double share, uint64_t passed_ns, std::string_view detail);

class Progress {
 public:
  explicit Progress(Clock& clock = RealClock());
  // Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // At most a few times a second something is written, so call it as often as you like.
  void Show(double share, std::string_view detail);

 private:
  Clock& clock_;
  const bool terminal_;
  const uint64_t begin_ns_;
  uint64_t shown_ns_ = 0;
};

}  // namespace ebb::cli
