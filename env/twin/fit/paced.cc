#include "env/twin/fit/paced.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <sys/prctl.h>

#include "base/clock.h"
#include "base/status.h"

namespace ebb::twin {
namespace {

// Longer ones are somebody else's doing, not the scheduler's ordinary turn.
constexpr double kOvershootMaxNs = 2e6;

void SleepPrecisely(Clock& clock) {
  prctl(PR_SET_TIMERSLACK, 1'000UL);
  clock.SleepUntilNs(clock.MonotonicNs() + kPaceNs);
}

}  // namespace

absl::StatusOr<double> PacedMedianNs(size_t count,
                                     const std::function<absl::Status(size_t i)>& step) {
  Clock& clock = RealClock();
  std::vector<uint64_t> took_ns;
  for (size_t i = 0; i < count; ++i) {
    SleepPrecisely(clock);
    const uint64_t begin_ns = clock.MonotonicNs();
    EBB_RETURN_IF_ERROR(step(i));
    took_ns.push_back(clock.MonotonicNs() - begin_ns);
  }
  const auto middle = took_ns.begin() + static_cast<ptrdiff_t>(count / 2);
  std::nth_element(took_ns.begin(), middle, took_ns.end());
  return static_cast<double>(*middle);
}

double SleepOvershootNs(size_t count, int busy_threads) {
  Clock& clock = RealClock();
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < busy_threads; ++i) {
    busy.emplace_back([&stop] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  }
  double sum_ns = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t due_ns = clock.MonotonicNs() + kPaceNs;
    SleepPrecisely(clock);
    sum_ns += std::min(static_cast<double>(clock.MonotonicNs() - due_ns), kOvershootMaxNs);
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  return sum_ns / static_cast<double>(count);
}

}  // namespace ebb::twin
