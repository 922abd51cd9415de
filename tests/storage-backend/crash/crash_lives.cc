#include "tests/storage-backend/crash/crash_lives.h"

#include <charconv>

#include "fmt/format.h"
#include "tests/storage-backend/crash/crash_workload.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kBlocks = 128;
constexpr int kLivesMax = 4;
constexpr std::array<std::string_view, kScenarios.size()> kNames = {
    "workload", "start", "stop", "drain", "resize", "compaction"};

class Lives {
 public:
  explicit Lives(const CrashCase& crash_case)
      : case_(crash_case),
        node_({.seed = crash_case.seed, .volume_blocks = kBlocks}),
        workload_(node_, crash_case.seed, kBlocks),
        rng_(crash_case.seed * 1'000'003 + crash_case.cut) {}

  CrashOutcome Run() {
    std::string fault = FirstLife();
    for (int life = 1; fault.empty() && case_.cut != 0 && life < kLivesMax; ++life) {
      fault = NextLife(/*may_be_cut=*/life + 1 < kLivesMax);
      if (!fault.empty()) fault = fmt::format("life {}: {}", life, fault);
    }
    if (fault.empty()) fault = End();
    outcome_.fault = fault;
    outcome_.log_hash = node_.log_hash();
    return outcome_;
  }

 private:
  std::string FirstLife() {
    std::string fault = Prepare();
    outcome_.writes_before = node_.power().writes();
    if (case_.cut != 0) node_.power().CutAtWrite(case_.cut);
    if (fault.empty()) fault = Interrupted();
    outcome_.writes_after = node_.power().writes();
    return fault;
  }

  // Before the power may fail.
  std::string Prepare() {
    if (case_.scenario == Scenario::kWorkload) return "";
    std::string fault = workload_.Recover();
    if (fault.empty() && case_.scenario == Scenario::kCompaction) return workload_.Scatter();
    if (fault.empty()) fault = workload_.Run(25);
    if (case_.scenario == Scenario::kStart) node_.Kill();
    return fault;
  }

  std::string Interrupted() {
    switch (case_.scenario) {
      case Scenario::kWorkload: {
        std::string fault = workload_.Recover();
        return fault.empty() && node_.is_open() ? workload_.Run(60) : fault;
      }
      case Scenario::kStart:
        return workload_.Recover();
      case Scenario::kStop:
        return workload_.Stop();
      case Scenario::kDrain:
        return workload_.Drain();
      case Scenario::kResize:
        return workload_.Resize(20);
      case Scenario::kCompaction:
        return workload_.Compact();
    }
    return "no such scenario";
  }

  std::string NextLife(bool may_be_cut) {
    std::string fault = Reboot();
    if (!fault.empty()) return fault;
    if (may_be_cut && rng_.Chance(0.5)) {
      node_.power().CutAtWrite(node_.power().writes() + 1 + rng_.Below(60));
    }
    fault = workload_.Recover();
    return fault.empty() && node_.is_open() ? workload_.Run(20) : fault;
  }

  std::string Reboot() {
    ++outcome_.power_cuts;
    node_.Reboot(rng_.Next());
    return node_.CheckCapacity();
  }

  std::string End() {
    std::string fault;
    if (!node_.power().on()) fault = Reboot();
    if (fault.empty() && !node_.is_open()) fault = workload_.Recover();
    if (fault.empty()) fault = workload_.Drain();
    if (fault.empty()) fault = workload_.Verify();
    if (!fault.empty()) return "at the end: " + fault;
    const VolumeMetrics metrics = node_.volume().Metrics();
    return node_.CheckCapacity(&metrics);
  }

  const CrashCase case_;
  CrashNode node_;
  CrashWorkload workload_;
  Rng rng_;
  CrashOutcome outcome_;
};

}  // namespace

std::string NameOf(const CrashCase& crash_case) {
  return fmt::format("{}:{}:{}", kNames[static_cast<size_t>(crash_case.scenario)], crash_case.seed,
                     crash_case.cut);
}

std::optional<CrashCase> ParseCrashCase(std::string_view name) {
  for (const Scenario scenario : kScenarios) {
    const std::string_view word = kNames[static_cast<size_t>(scenario)];
    if (!name.starts_with(word) || name.substr(word.size(), 1) != ":") continue;
    CrashCase parsed{.scenario = scenario};
    const char* const end = name.data() + name.size();
    const auto seed = std::from_chars(name.data() + word.size() + 1, end, parsed.seed);
    if (seed.ec != std::errc() || seed.ptr == end || *seed.ptr != ':') return std::nullopt;
    const auto cut = std::from_chars(seed.ptr + 1, end, parsed.cut);
    if (cut.ec != std::errc() || cut.ptr != end) return std::nullopt;
    return parsed;
  }
  return std::nullopt;
}

CrashOutcome RunCrashCase(const CrashCase& crash_case) { return Lives(crash_case).Run(); }

}  // namespace ebb::storage
