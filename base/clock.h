// Clock is the only door to time, so that tests and the twin can turn it by hand.
//
// MonotonicNs never goes back and has no relation to the date; WallMs is Unix time and may jump.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace ebb {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual uint64_t MonotonicNs() = 0;
  virtual int64_t WallMs() = 0;
  // Returns at or after `deadline_ns` (monotonic); at once when it has passed.
  virtual void SleepUntilNs(uint64_t deadline_ns) = 0;
};

// The machine's clocks. One object serves all threads.
Clock& RealClock();

// A clock that moves only when told to; SleepUntilNs moves it to the deadline.
class ManualClock final : public Clock {
 public:
  uint64_t MonotonicNs() override { return now_ns_.load(); }
  int64_t WallMs() override {
    return wall_start_ms_.load() + static_cast<int64_t>(now_ns_.load() / 1'000'000);
  }
  void SleepUntilNs(uint64_t deadline_ns) override;
  void AdvanceNs(uint64_t ns) { now_ns_ += ns; }
  // Lets the wall clock jump, as NTP or an operator may do; the monotonic clock stays.
  void JumpWallMs(int64_t ms) { wall_start_ms_ += ms; }

 private:
  std::atomic<uint64_t> now_ns_{1};
  std::atomic<int64_t> wall_start_ms_{1'700'000'000'000};
};

}  // namespace ebb
