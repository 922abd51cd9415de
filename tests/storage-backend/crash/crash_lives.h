// One power cut after another over the same disks: what crash tests repeat thousands of times.
//
// A case is a scenario, a seed and the write at which the power first fails; it fully determines
// every transfer. Later cuts of the same case fall where the seed says, often into the recovery of
// the first, because a recovery that was itself cut is the harder case. After each cut the capacity
// tier recomputes its reference counts and space, and the oracle judges every block.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ebb::storage {

// What the power fails in.
enum class Scenario : uint8_t {
  kWorkload,    // a random mix of everything, from the format of blank devices on
  kStart,       // the start of a node that was killed
  kStop,        // a clean stop
  kDrain,       // a drain, with writes coming in
  kResize,      // shares of the caches changed under load
  kCompaction,  // the capacity tier moving live blocks together
};
inline constexpr std::array kScenarios = {Scenario::kWorkload, Scenario::kStart,
                                          Scenario::kStop,     Scenario::kDrain,
                                          Scenario::kResize,   Scenario::kCompaction};

struct CrashCase {
  Scenario scenario = Scenario::kWorkload;
  uint64_t seed = 1;
  uint64_t cut = 0;  // the write, counted from the case's first; 0: the scenario is not cut
};

// "drain:17:203", and back.
std::string NameOf(const CrashCase& crash_case);
std::optional<CrashCase> ParseCrashCase(std::string_view name);

struct CrashOutcome {
  std::string fault;           // in words; empty: all is right
  uint64_t writes_before = 0;  // when the scenario began
  uint64_t writes_after = 0;   // when it ended, or the power did
  uint64_t power_cuts = 0;     // each followed by a recovery and a judgement
  uint64_t log_hash = 0;       // of every transfer; the same case must give the same
};
CrashOutcome RunCrashCase(const CrashCase& crash_case);

}  // namespace ebb::storage
