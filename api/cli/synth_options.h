// The options that describe a synthesised load, as `ebb trace synth` and `ebb twin` take them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "env/trace/synth.h"

namespace CLI {
class App;
}

namespace ebb::cli {

struct SynthOrder {
  env::SynthPhase begin;  // where the parameters begin when no preset is named
  std::string preset;
  std::map<std::string, std::string> parameters;  // given, by name
  std::vector<std::string> phases;
  uint64_t requests_max = 0;
  std::string total;
};

// One option for each parameter, and `preset_option`, --phase, --total, --requests. `order`
// outlives `command`.
void AddSynthOptions(CLI::App* command, const std::string& preset_option, SynthOrder& order);
// Each preset's name and what it is, a line each.
std::string SynthPresetHelp();
absl::StatusOr<env::SynthOptions> ToSynthOptions(const SynthOrder& order, uint64_t seed);

}  // namespace ebb::cli
