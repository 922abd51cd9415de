#include "api/cli/progress.h"

#include <cstdio>

#include <unistd.h>

#include "base/units.h"
#include "fmt/format.h"

namespace ebb::cli {
namespace {

constexpr uint64_t kShowEveryNs = 250 * kNsPerMs;
// Before that the time left is a guess.
constexpr double kShareMin = 0.01;

}  // namespace

std::string ProgressText(double share, uint64_t passed_ns, std::string_view detail) {
  if (share < 0) return std::string(detail);
  std::string text = fmt::format("{:.0f} %, {}", 100 * share, detail);
  if (share < kShareMin || share >= 1) return text;
  const double left_ns = static_cast<double>(passed_ns) * (1 - share) / share;
  const auto left_s = static_cast<uint64_t>(left_ns / kNsPerS) + 1;
  return text + fmt::format(", about {} left", FormatDurationNs(left_s * kNsPerS));
}

Progress::Progress(Clock& clock)
    : clock_(clock), terminal_(isatty(STDERR_FILENO) != 0), begin_ns_(clock.MonotonicNs()) {}

Progress::~Progress() {
  if (terminal_ && shown_ns_ != 0) fmt::print(stderr, "\r\033[K");
}

void Progress::Show(double share, std::string_view detail) {
  if (!terminal_) return;
  const uint64_t now_ns = clock_.MonotonicNs();
  if (now_ns - (shown_ns_ == 0 ? begin_ns_ : shown_ns_) < kShowEveryNs) return;
  shown_ns_ = now_ns;
  fmt::print(stderr, "\r\033[K{}", ProgressText(share, now_ns - begin_ns_, detail));
  std::fflush(stderr);
}

}  // namespace ebb::cli
