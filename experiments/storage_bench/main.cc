// Question: is the store as fast as its bars ask, beside its peers on the same machine?
//
// usage: ebb_storage_bench [--repeats N] [--only FIGURE,...] [--quick] [--out FILE]
// Prints every figure with its bar and writes them as JSON. Exits with 1 when a bar does not hold.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/interrupt.h"
#include "base/status.h"
#include "base/units.h"
#include "experiments/storage_bench/bench_main.h"
#include "experiments/storage_bench/bench_volume.h"
#include "experiments/storage_bench/figures.h"
#include "experiments/storage_bench/study.h"
#include "experiments/support/scratch.h"

namespace ebb::storage_bench {
namespace {

struct Arguments {
  BenchRun run{.bench = "storage", .repeats = 5};
  std::string disk_parent = "/var/tmp";
  std::string memory_parent = "/dev/shm";
  std::vector<std::string> only;
  uint64_t probe_memory_bytes = 0;
};

struct StudyEntry {
  const char* series;  // first words of the series it makes
  std::unique_ptr<Study> (*make)(const BenchOptions&);
};

// In the order of a repeat. A figure belongs to the entry with the longest match.
constexpr StudyEntry kStudies[] = {
    {"engine_", MakeEngineStudy},
    {"memory.", MakeMemoryStudy},
    {"nbd_", MakeNbdTmpfsStudy},
    {"nbd_disk", MakeNbdDiskStudy},
    {"throttle.", MakeThrottleStudy},
    {"destage.", MakeDestageStudy},
    {"destage_zstd1.", MakeDestageCodecStudy},
    {"recovery.", MakeRecoveryStudy},
};

const StudyEntry* StudyOf(const FigureSpec& spec) {
  const StudyEntry* best = nullptr;
  size_t longest = 0;
  for (const StudyEntry& entry : kStudies) {
    const std::string_view words = entry.series;
    if (spec.series.rfind(words, 0) != 0 || words.size() <= longest) continue;
    best = &entry;
    longest = words.size();
  }
  return best;
}

absl::Status RunRepeats(const Arguments& arguments, std::span<const StudyEntry* const> entries,
                        const BenchOptions& options, Samples& samples) {
  std::vector<std::unique_ptr<Study>> studies;
  for (const StudyEntry* entry : entries) studies.push_back(entry->make(options));
  const double begin = NowSeconds();
  const int repeats = arguments.run.repeats;
  const size_t steps = studies.size() * static_cast<size_t>(repeats);
  double first_repeat_s = 0;
  for (size_t step = 0; step < steps; ++step) {
    if (Interrupted()) return absl::CancelledError("interrupted");
    Study& study = *studies[step % studies.size()];
    const size_t repeat = step / studies.size() + 1;
    const double study_begin = NowSeconds();
    EBB_RETURN_IF_ERROR(Annotate(study.RunOnce(samples), study.name()));
    if (step + 1 == studies.size()) first_repeat_s = NowSeconds() - begin;
    const double left_s = repeat == 1 ? first_repeat_s * (repeats - 1)
                                      : (NowSeconds() - begin) / static_cast<double>(step + 1) *
                                            static_cast<double>(steps - step - 1);
    fmt::print(stderr, "[storage bench] repeat {}/{} {:14} {:5.1f} s{}\n", repeat, repeats,
               study.name(), NowSeconds() - study_begin,
               left_s > 0 ? fmt::format(", about {:.0f} s left", left_s) : "");
  }
  return absl::OkStatus();
}

// The figures that were asked for: InvalidArgument when one has no such name.
absl::StatusOr<std::vector<FigureSpec>> Choose(const std::vector<std::string>& only) {
  std::vector<FigureSpec> chosen;
  std::set<std::string> names(only.begin(), only.end());
  for (const FigureSpec& spec : FigureTable()) {
    if (only.empty() || names.erase(spec.name) > 0) chosen.push_back(spec);
  }
  if (names.empty()) return chosen;
  std::string message = "no figure is named " + *names.begin() + "; there are:";
  for (const FigureSpec& spec : FigureTable()) message += "\n  " + spec.name;
  return absl::InvalidArgumentError(message);
}

absl::StatusOr<bool> RunBench(const Arguments& arguments) {
  EBB_ASSIGN_OR_RETURN(const auto specs, Choose(arguments.only));
  std::vector<const StudyEntry*> entries;
  for (const StudyEntry& entry : kStudies) {
    const bool wanted = std::any_of(specs.begin(), specs.end(), [&](const FigureSpec& spec) {
      return StudyOf(spec) == &entry;
    });
    if (wanted) entries.push_back(&entry);
  }
  BenchOptions options;
  options.quick = arguments.run.quick;
  options.program_path = std::filesystem::read_symlink("/proc/self/exe").string();
  using experiments::ScratchFolder;
  EBB_ASSIGN_OR_RETURN(const auto memory, ScratchFolder::Make(arguments.memory_parent));
  options.memory_dir = memory->path();
  EBB_ASSIGN_OR_RETURN(const auto disk, ScratchFolder::Make(arguments.disk_parent));
  options.disk_dir = disk->path();
  Samples samples;
  EBB_RETURN_IF_ERROR(RunRepeats(arguments, entries, options, samples));
  return Report(arguments.run, specs, samples);
}

int Main(int argc, char** argv) {
  CLI::App app{"Speed of the store beside its peers"};
  Arguments arguments;
  app.add_option("--repeats", arguments.run.repeats, "repeats; the median is the figure")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--only", arguments.only, "figures to measure, by name")->delimiter(',');
  app.add_flag("--quick", arguments.run.quick,
               "short phases: to see that it works, not for figures");
  app.add_option("--disk", arguments.disk_parent, "folder on the real disk for scratch files")
      ->capture_default_str();
  app.add_option("--memory", arguments.memory_parent, "folder in memory for scratch files")
      ->capture_default_str();
  app.add_option("--probe-memory", arguments.probe_memory_bytes)->group("");
  return BenchMain(app, argc, argv, arguments.run, [&]() -> absl::StatusOr<bool> {
    if (arguments.probe_memory_bytes > 0) {
      EBB_RETURN_IF_ERROR(ProbeMemory(arguments.probe_memory_bytes));
      return true;
    }
    CatchInterrupts();
    return RunBench(arguments);
  });
}

}  // namespace
}  // namespace ebb::storage_bench

int main(int argc, char** argv) { return ebb::storage_bench::Main(argc, argv); }
