#include "experiments/fidelity_bench/gate_clock.h"

#include <algorithm>
#include <thread>

#include <sys/prctl.h>

namespace ebb::fidelity_bench {
namespace {

// As ShapedDevice sleeps: that much less than asked for, as measured on this thread, and the rest
// in turns of yielding.
class PreciseSleep {
 public:
  PreciseSleep() { prctl(PR_SET_TIMERSLACK, 1'000UL); }

  void Until(uint64_t deadline_ns) {
    Clock& clock = RealClock();
    const auto early_ns = static_cast<uint64_t>(overshoot_ns_);
    if (deadline_ns > clock.MonotonicNs() + early_ns) {
      const uint64_t wake_ns = deadline_ns - early_ns;
      clock.SleepUntilNs(wake_ns);
      const double overshoot_ns = static_cast<double>(clock.MonotonicNs() - wake_ns);
      overshoot_ns_ += 0.1 * (std::min(overshoot_ns, 60'000.0) - overshoot_ns_);
    }
    while (clock.MonotonicNs() < deadline_ns) std::this_thread::yield();
  }

 private:
  double overshoot_ns_ = 20'000;
};

}  // namespace

uint64_t GateClock::MonotonicNs() {
  const uint64_t offset_ns = real_minus_own_ns_.load();
  return offset_ns == 0 ? closed_now_ns_.load() : RealClock().MonotonicNs() - offset_ns;
}

void GateClock::SleepUntilNs(uint64_t deadline_ns) {
  if (const uint64_t offset_ns = real_minus_own_ns_.load(); offset_ns != 0) {
    thread_local PreciseSleep sleep;
    return sleep.Until(deadline_ns + offset_ns);
  }
  uint64_t now_ns = closed_now_ns_.load();
  while (now_ns < deadline_ns && !closed_now_ns_.compare_exchange_weak(now_ns, deadline_ns)) {
  }
}

void GateClock::Open() {
  // Unsigned wrap-around is meant: a clock that was passed quickly may be ahead of the real one.
  real_minus_own_ns_ = RealClock().MonotonicNs() - closed_now_ns_.load();
}

}  // namespace ebb::fidelity_bench
