#include "api/cli/when.h"

#include "base/clock.h"
#include "base/time_text.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::cli {

absl::StatusOr<int64_t> ParseWhen(const std::string& option, const std::string& text) {
  if (text == "now") return RealClock().WallMs();
  if (const auto time = ParseTimeMs(text); time.ok()) return *time;
  if (const auto ago_ns = ParseDurationNs(text); ago_ns.ok()) {
    return RealClock().WallMs() - static_cast<int64_t>(*ago_ns / kNsPerMs);
  }
  return absl::InvalidArgumentError(fmt::format(
      "{}: '{}' is not a time; write 1h (ago), now, 2026-07-29T18:04:05Z or Unix milliseconds",
      option, text));
}

}  // namespace ebb::cli
