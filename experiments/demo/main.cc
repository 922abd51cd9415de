// ebb-demo: a two-tier node, its sidecar and real load, tuned in front of your eyes. See demo.h.
#include <cstdio>
#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

#include "base/interrupt.h"
#include "experiments/demo/demo.h"
#include "fmt/format.h"

namespace {

using ebb::demo::Options;

// An empty string, or what is missing.
std::string Missing(const Options& options) {
  const std::string ebbd = options.bin_dir + "/ebbd";
  const std::string cli = options.bin_dir + "/ebb";
  for (const std::string& path : {ebbd, cli, options.plugin_path, options.trace_path}) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return path;
  }
  return "";
}

int Main(int argc, char** argv) {
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe");
  Options options;
  options.bin_dir = own.parent_path();
  options.plugin_path = own.parent_path().parent_path() / "lib" / "nbdkit-ebb-plugin.so";
  options.trace_path = EBB_DEMO_TRACE;
  CLI::App app(
      "Starts a two-tier node on shaped files, attaches the sidecar, drives it with fio and a "
      "recorded trace, tunes it and compares default with tuned.");
  app.add_option("--goal", options.goal_word, "read, write or balanced (default)")
      ->check(CLI::IsMember({"read", "write", "balanced"}));
  app.add_option("--minutes", options.minutes, "of tuning (default 4)")
      ->check(CLI::Range(0.2, 600.0));
  app.add_option("--agent", options.agent, "the sidecar's agent (default: its own)");
  app.add_option("--pairs", options.pairs, "of blocks in each comparison (default 3 to 5)")
      ->check(CLI::Range(2, 100));
  app.add_option("--seed", options.seed, "of the order of the blocks");
  app.add_option("--scratch", options.scratch_parent,
                 "folder for the scratch folder (default: in memory when there is room, else /tmp)")
      ->check(CLI::ExistingDirectory);
  app.add_option("--trace", options.trace_path, "another recorded trace (.ebbt)");
  app.add_flag("--keep", options.keep, "leave node, sidecar and files running at the end");
  CLI11_PARSE(app, argc, argv);
  options.goal = options.goal_word == "read"    ? ebb::agents::GoalKind::kRead
                 : options.goal_word == "write" ? ebb::agents::GoalKind::kWrite
                                                : ebb::agents::GoalKind::kBalanced;
  if (const std::string missing = Missing(options); !missing.empty()) {
    fmt::print(stderr, "ebb-demo: {} is missing: build everything first (./dev demo does)\n",
               missing);
    return 1;
  }
  const absl::Status status = ebb::demo::RunDemo(options, ebb::CatchInterrupts());
  if (status.ok()) return 0;
  fmt::print(stderr, "ebb-demo: {}\n", std::string(status.message()));
  return absl::IsCancelled(status) ? 130 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& fault) {
    fmt::print(stderr, "ebb-demo: {}\n", fault.what());
    return 1;
  }
}
