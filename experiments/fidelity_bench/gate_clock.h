// GateClock: time for shaped devices that can be passed at no cost.
//
// While the gate is closed nobody sleeps: a deadline moves the clock to itself. So a node is filled
// and warmed up as fast as memory allows, over devices that will take their time as soon as the
// gate is open. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace ebb::fidelity_bench {

class GateClock final : public Clock {
 public:
  uint64_t MonotonicNs() override;
  int64_t WallMs() override { return RealClock().WallMs(); }
  void SleepUntilNs(uint64_t deadline_ns) override;

  // From now on time is real. Not to be closed again.
  void Open();

 private:
  std::atomic<uint64_t> closed_now_ns_{1};
  std::atomic<uint64_t> real_minus_own_ns_{0};  // 0: closed
};

}  // namespace ebb::fidelity_bench
