#include "experiments/demo/report.h"

#include "fmt/format.h"

namespace ebb::demo {
namespace {

std::string Milliseconds(const env::OpWindow& op, double ns) {
  return op.ops == 0 ? "-" : fmt::format("{:.2f}", ns / 1e6);
}

std::string Row(std::string_view phase, std::string_view setting,
                const env::WindowMetrics& measured, std::string_view index) {
  const auto ops = static_cast<double>(measured.read.ops + measured.write.ops);
  const double iops = measured.seconds > 0 ? ops / measured.seconds : 0;
  return fmt::format("{:<7} {:<8} {:>8.0f} {:>9} {:>9} {:>9} {:>9}   {}\n", phase, setting, iops,
                     Milliseconds(measured.read, measured.read.p50_ns),
                     Milliseconds(measured.read, measured.read.p99_ns),
                     Milliseconds(measured.write, measured.write.p50_ns),
                     Milliseconds(measured.write, measured.write.p99_ns), index);
}

}  // namespace

std::string ResultTable(const std::vector<PhaseResult>& results) {
  std::string text =
      fmt::format("{:<7} {:<8} {:>8} {:>9} {:>9} {:>9} {:>9}   {}\n", "phase", "setting", "IOPS",
                  "read p50", "read p99", "write p50", "write p99", "index (95 % interval)");
  for (const PhaseResult& result : results) {
    text += Row(result.id, "default", result.by_default, "100");
    if (result.tuned.seconds > 0) {
      text += Row("", "tuned", result.tuned, result.comparison.ToText());
    } else {
      text += fmt::format("{:<7} {:<8} no claim: tuned is the default\n", "", "tuned");
    }
    if (result.dropped_pairs > 0) {
      text += fmt::format("        {} pairs of blocks left out: too few usable windows\n",
                          result.dropped_pairs);
    }
  }
  text += "Latencies in ms, measured by the node. phases:\n";
  for (const PhaseResult& result : results) {
    text += fmt::format("  {:<6} {}; {} pairs\n", result.id, result.title, result.comparison.pairs);
  }
  return text;
}

std::string ChangeList(const std::vector<ChangeLine>& changes) {
  if (changes.empty()) return "no change was tried\n";
  std::string text;
  for (const ChangeLine& change : changes) {
    text += fmt::format("#{} {:<12} {}  by {}\n", change.id, change.outcome,
                        change.knobs.empty() ? "(no knob)" : change.knobs, change.actor);
    text += fmt::format("    why      {}\n", change.reason);
    text += fmt::format("    effect   {}\n", change.effect);
    text += fmt::format("    verdict  {}\n", change.outcome_reason);
  }
  return text;
}

}  // namespace ebb::demo
