#include "env/twin/fit/paced.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/prctl.h>

#include "base/clock.h"
#include "base/status.h"

namespace ebb::twin {
namespace {

// Longer ones are somebody else's doing, not the scheduler's ordinary turn.
constexpr double kOvershootMaxNs = 2e6;

constexpr size_t kThreads = 16;

void SleepPrecisely(Clock& clock, uint64_t until_ns) {
  prctl(PR_SET_TIMERSLACK, 1'000UL);
  clock.SleepUntilNs(until_ns);
}

}  // namespace

absl::StatusOr<PacedTimes> PacedTimes::Measure(size_t count,
                                               const std::function<absl::Status(size_t i)>& step) {
  Clock& clock = RealClock();
  const uint64_t begin_ns = clock.MonotonicNs();
  PacedTimes times;
  absl::Status status;
  std::mutex mutex;  // of all three
  const auto work = [&](size_t thread) {
    for (size_t i = thread; i < count; i += kThreads) {
      SleepPrecisely(clock, begin_ns + (i + 1) * kPaceNs);
      const std::lock_guard lock(mutex);
      const uint64_t from_ns = clock.MonotonicNs();
      status.Update(step(i));
      if (!status.ok()) return;
      times.sorted_ns_.push_back(clock.MonotonicNs() - from_ns);
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EBB_RETURN_IF_ERROR(status);
  if (times.sorted_ns_.empty()) return absl::InvalidArgumentError("nothing to be measured");
  std::sort(times.sorted_ns_.begin(), times.sorted_ns_.end());
  return times;
}

double PacedTimes::QuantileNs(double q) const {
  const auto last = static_cast<double>(sorted_ns_.size() - 1);
  return static_cast<double>(sorted_ns_[static_cast<size_t>(q * last)]);
}

absl::StatusOr<double> PacedMedianNs(size_t count,
                                     const std::function<absl::Status(size_t i)>& step) {
  EBB_ASSIGN_OR_RETURN(const PacedTimes times, PacedTimes::Measure(count, step));
  return times.MedianNs();
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
    SleepPrecisely(clock, due_ns);
    sum_ns += std::min(static_cast<double>(clock.MonotonicNs() - due_ns), kOvershootMaxNs);
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  return sum_ns / static_cast<double>(count);
}

}  // namespace ebb::twin
