#include "base/clock.h"

#include <cerrno>
#include <chrono>
#include <ctime>

namespace ebb {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

class SystemClock final : public Clock {
 public:
  uint64_t MonotonicNs() override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
  }

  int64_t WallMs() override {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
  }

  void SleepUntilNs(uint64_t deadline_ns) override {
    timespec deadline{};
    deadline.tv_sec = static_cast<time_t>(deadline_ns / kNsPerSecond);
    deadline.tv_nsec = static_cast<int64_t>(deadline_ns % kNsPerSecond);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
    }
  }
};

}  // namespace

Clock& RealClock() {
  static SystemClock clock;
  return clock;
}

void ManualClock::SleepUntilNs(uint64_t deadline_ns) {
  uint64_t now = now_ns_.load();
  while (now < deadline_ns && !now_ns_.compare_exchange_weak(now, deadline_ns)) {
  }
}

}  // namespace ebb
