// CpuModel: the host's cores as a resource that requests and background threads share.
//
// Requests wake up and run at once on the core that is free first. Background threads (destage,
// compression) take what is left: their work is stretched by what requests used lately, and while
// they keep every core busy a request that wakes has to push one away.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ebb::twin {

class CpuModel {
 public:
  explicit CpuModel(int cores) : free_ns_(static_cast<size_t>(cores), 0) {}

  // A request's processor time from `now_ns` on; returns when it has had it.
  uint64_t Book(uint64_t now_ns, double cost_ns) {
    size_t first = 0;
    for (size_t i = 1; i < free_ns_.size(); ++i) {
      if (free_ns_[i] < free_ns_[first]) first = i;
    }
    const double took_ns = cost_ns * slow_;
    const uint64_t end_ns = std::max(now_ns, free_ns_[first]) + static_cast<uint64_t>(took_ns);
    free_ns_[first] = end_ns;
    requests_ns_ += cost_ns;
    occupied_ns_ += took_ns;
    return end_ns;
  }

  // `threads` background threads want `cpu_ns` together from now on: how long that takes.
  uint64_t Background(uint64_t now_ns, double cpu_ns, int threads) {
    Update(now_ns);
    background_ns_ += cpu_ns;
    busy_threads_ = std::min(threads, static_cast<int>(free_ns_.size()));
    const double cores = static_cast<double>(free_ns_.size());
    // A fair scheduler leaves each runnable thread its share, however busy the requests are.
    const double left = std::max(cores - used_cores_, cores / (cores + 1));
    const double each = std::min(1.0, left / busy_threads_);
    // Where both want more than there is, requests get slower as well.
    slow_ = std::max(1.0, used_cores_ / (cores - each * busy_threads_ + 1e-9));
    return static_cast<uint64_t>(cpu_ns / (busy_threads_ * each));
  }
  void BackgroundIdle() {
    busy_threads_ = 0;
    slow_ = 1;
  }

  // Chance that a request that wakes finds a background thread on its core.
  double Contention() const {
    return static_cast<double>(busy_threads_) / static_cast<double>(free_ns_.size());
  }
  double total_ns() const { return requests_ns_ + background_ns_; }

 private:
  // Cores that requests used lately: over some milliseconds, smoothed.
  void Update(uint64_t now_ns) {
    constexpr uint64_t kIntervalNs = 5'000'000;
    if (now_ns < updated_ns_ + kIntervalNs) return;
    const double used =
        (occupied_ns_ - occupied_seen_ns_) / static_cast<double>(now_ns - updated_ns_);
    used_cores_ += 0.3 * (std::min(used, static_cast<double>(free_ns_.size())) - used_cores_);
    occupied_seen_ns_ = occupied_ns_;
    updated_ns_ = now_ns;
  }

  std::vector<uint64_t> free_ns_;
  double requests_ns_ = 0;
  double occupied_ns_ = 0;  // by requests, slowed down
  double occupied_seen_ns_ = 0;
  double background_ns_ = 0;
  double used_cores_ = 0;
  double slow_ = 1;
  int busy_threads_ = 0;
  uint64_t updated_ns_ = 0;
};

}  // namespace ebb::twin
