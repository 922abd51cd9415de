// SteadyWatch tells when a load has filled the cache as far as it will: the share of dirty blocks
// has stopped rising.
//
// A baseline learned on a freshly drained node describes a node that exists only for a minute, and
// the index then falls as the log fills, whatever the tuner does. Pure; one value a window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>

namespace ebb::demo {

class SteadyWatch {
 public:
  static constexpr size_t kWindowsMin = 15;
  static constexpr size_t kWindowsMax = 90;  // a load that never settles: tune it as it is

  // True once the load is steady.
  bool Add(double dirty_share) {
    ++windows_;
    recent_.push_back(dirty_share);
    if (recent_.size() > kSpan) recent_.pop_front();
    if (windows_ >= kWindowsMax) return true;
    if (windows_ < kWindowsMin) return false;
    // Sawtooth of destage included: the newer half is no fuller than the older one.
    const auto middle = recent_.begin() + kSpan / 2;
    return *std::max_element(middle, recent_.end()) <=
           *std::max_element(recent_.begin(), middle) + kRiseMax;
  }
  size_t windows() const { return windows_; }

 private:
  static constexpr size_t kSpan = 10;
  static constexpr double kRiseMax = 0.01;

  std::deque<double> recent_;
  size_t windows_ = 0;
};

}  // namespace ebb::demo
