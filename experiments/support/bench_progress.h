// Progress of a long bench on standard error: how much is done, and how long the rest will take.
#pragma once

#include <cstdint>
#include <string>

namespace ebb::experiments {

class BenchProgress {
 public:
  // Lines begin with the bench's name. `total` in the unit of Advance; nearly is enough.
  BenchProgress(std::string bench, double total);

  // What is under way, for the lines that follow.
  void Begin(const std::string& step) { step_ = step; }
  // At most a line a second on a terminal, written over, and one a minute elsewhere.
  void Advance(double done);
  void End();

 private:
  const std::string bench_;
  const double total_;
  const uint64_t begin_ns_;
  const bool terminal_;
  double done_ = 0;
  uint64_t shown_ns_ = 0;
  std::string step_;
};

}  // namespace ebb::experiments
