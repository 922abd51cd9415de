#include "env/twin/calibration.h"

#include <algorithm>
#include <optional>

#include "base/status.h"

namespace ebb::twin {
namespace {

// No device answers so fast.
constexpr double kProcessorP50Ns = 25'000;
constexpr double kProcessorP99Ns = 400'000;
constexpr uint64_t kOpsMin = 100;
constexpr double kFactorMin = 0.25;
constexpr double kFactorMax = 6;
constexpr int kRounds = 3;  // a scaled cost moves waits as well

// What `live` is of `simulated`; nothing where either is more than the processor's doing.
std::optional<double> Factor(double live_ns, double simulated_ns, double processor_ns) {
  if (live_ns <= 0 || simulated_ns <= 0) return std::nullopt;
  if (live_ns > processor_ns || simulated_ns > processor_ns) return std::nullopt;
  return live_ns / simulated_ns;
}

std::optional<double> MedianFactor(const env::OpWindow& live, const env::OpWindow& simulated) {
  if (live.ops < kOpsMin || simulated.ops < kOpsMin) return std::nullopt;
  return Factor(live.p50_ns, simulated.p50_ns, kProcessorP50Ns);
}

std::optional<double> TailFactor(const env::OpWindow& live, const env::OpWindow& simulated) {
  if (live.ops < kOpsMin || simulated.ops < kOpsMin) return std::nullopt;
  return Factor(live.p99_ns - live.p50_ns, simulated.p99_ns - simulated.p50_ns, kProcessorP99Ns);
}

}  // namespace

absl::StatusOr<NodeModel> CalibrateCosts(const NodeModel& model, const env::WindowMetrics& live,
                                         const RunModel& run) {
  double read = 1;
  double write = 1;
  double close = 1;
  const auto scale = [](double& factor, double by) {
    factor = std::clamp(factor * by, kFactorMin, kFactorMax);
  };
  const auto scaled = [&] {
    NodeModel result = model;
    result.cpu.read_request *= read;
    result.cpu.read_block *= read;
    result.cpu.write_request *= write;
    result.cpu.write_block *= write;
    result.cpu.group_close *= close;
    return result;
  };
  for (int round = 0; round < kRounds; ++round) {
    EBB_ASSIGN_OR_RETURN(const env::WindowMetrics simulated, run(scaled()));
    const std::optional<double> reads = MedianFactor(live.read, simulated.read);
    const std::optional<double> writes = MedianFactor(live.write, simulated.write);
    if (reads.has_value()) scale(read, *reads);
    if (writes.has_value()) scale(write, *writes);
    if (!reads.has_value() && writes.has_value()) read = write;
    if (reads.has_value() && !writes.has_value()) write = read;
    if (const auto tail = TailFactor(live.write, simulated.write)) scale(close, *tail);
  }
  return scaled();
}

}  // namespace ebb::twin
