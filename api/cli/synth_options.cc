#include "api/cli/synth_options.h"

#include <CLI/CLI.hpp>

#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::cli {
namespace {

absl::StatusOr<env::SynthPhase> PresetPhase(const std::string& name) {
  std::string names;
  for (const env::SynthPreset& preset : env::SynthPresets()) {
    if (preset.name == name) {
      env::SynthPhase phase;
      EBB_RETURN_IF_ERROR(env::SetSynthParameters(preset.parameters, &phase));
      return phase;
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", preset.name);
  }
  return absl::InvalidArgumentError(
      fmt::format("there is no preset '{}'; there are {}", name, names));
}

}  // namespace

std::string SynthPresetHelp() {
  std::string presets;
  for (const env::SynthPreset& preset : env::SynthPresets()) {
    presets += fmt::format("  {:<22} {}\n", preset.name, preset.help);
  }
  return presets;
}

void AddSynthOptions(CLI::App* command, const std::string& preset_option, SynthOrder& order) {
  constexpr const char* kGroup = "Synthesised load";
  command->add_option(preset_option, order.preset, "where the parameters begin: see below")
      ->group(kGroup);
  for (const env::SynthParameter& parameter : env::SynthParameters()) {
    const std::string name(parameter.name);
    command
        ->add_option_function<std::string>(
            "--" + name,
            [&order, name](const std::string& value) { order.parameters[name] = value; },
            std::string(parameter.help))
        ->group(kGroup);
  }
  command
      ->add_option("--phase", order.phases,
                   "a phase that differs from the other options, e.g. duration=10s,read=0.1; "
                   "several follow each other in a circle")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kGroup);
  command->add_option("--total", order.total, "length of the whole (once through the phases)")
      ->group(kGroup);
  command->add_option("--requests", order.requests_max, "most requests")->group(kGroup);
}

absl::StatusOr<env::SynthOptions> ToSynthOptions(const SynthOrder& order, uint64_t seed) {
  env::SynthPhase base = order.begin;
  if (!order.preset.empty()) {
    EBB_ASSIGN_OR_RETURN(base, PresetPhase(order.preset));
  }
  for (const auto& [name, value] : order.parameters) {
    EBB_RETURN_IF_ERROR(env::SetSynthParameter(name, value, &base));
  }
  env::SynthOptions options{.seed = seed, .requests_max = order.requests_max, .phases = {}};
  for (const std::string& phase : order.phases) {
    options.phases.push_back(base);
    EBB_RETURN_IF_ERROR(env::SetSynthParameters(phase, &options.phases.back()));
  }
  if (options.phases.empty()) options.phases.push_back(base);
  if (!order.total.empty()) {
    EBB_ASSIGN_OR_RETURN(options.duration_ns, ParseDurationNs(order.total));
  }
  return options;
}

}  // namespace ebb::cli
