#include "experiments/support/bench_progress.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::experiments {

BenchProgress::BenchProgress(std::string bench, double total)
    : bench_(std::move(bench)),
      total_(total),
      begin_ns_(RealClock().MonotonicNs()),
      terminal_(isatty(STDERR_FILENO) != 0),
      shown_ns_(begin_ns_) {}

void BenchProgress::Advance(double done) {
  done_ += done;
  const uint64_t now_ns = RealClock().MonotonicNs();
  if (now_ns - shown_ns_ < (terminal_ ? kNsPerS : 60 * kNsPerS)) return;
  shown_ns_ = now_ns;
  const double share = std::min(done_ / total_, 1.0);
  const double left_ns = static_cast<double>(now_ns - begin_ns_) * (1 / share - 1);
  fmt::print(stderr, "{}[{} bench] {:.0f} %, about {} left: {}{}", terminal_ ? "\r\033[K" : "",
             bench_, 100 * share, FormatDurationNs(static_cast<uint64_t>(left_ns)), step_,
             terminal_ ? "" : "\n");
  std::fflush(stderr);
}

void BenchProgress::End() {
  const uint64_t took_ns = RealClock().MonotonicNs() - begin_ns_;
  fmt::print(stderr, "{}[{} bench] took {}\n", terminal_ ? "\r\033[K" : "", bench_,
             FormatDurationNs(took_ns));
}

}  // namespace ebb::experiments
