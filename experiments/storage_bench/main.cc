// Question: is the store as fast as its bars ask, beside its peers on the same machine?
//
// usage: ebb_storage_bench [--repeats N] [--only FIGURE,...] [--quick] [--out FILE]
// Prints every figure with its bar and writes them as JSON. Exits with 1 when a bar does not hold.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/interrupt.h"
#include "base/status.h"
#include "base/units.h"
#include "experiments/storage_bench/bench_report.h"
#include "experiments/storage_bench/bench_volume.h"
#include "experiments/storage_bench/figures.h"
#include "experiments/storage_bench/study.h"
#include "experiments/support/scratch.h"

namespace ebb::storage_bench {
namespace {

struct Arguments {
  std::string out_path;
  std::string commit = "unknown";
  std::string disk_parent = "/var/tmp";
  std::string memory_parent = "/dev/shm";
  std::vector<std::string> only;
  int repeats = 5;
  bool quick = false;
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

// A folder that goes with the object.
class Scratch {
 public:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  const std::string path_;
};

absl::Status RunRepeats(const Arguments& arguments, std::span<const StudyEntry* const> entries,
                        const BenchOptions& options, Samples& samples) {
  std::vector<std::unique_ptr<Study>> studies;
  for (const StudyEntry* entry : entries) studies.push_back(entry->make(options));
  const double begin = NowSeconds();
  const size_t steps = studies.size() * static_cast<size_t>(arguments.repeats);
  double first_repeat_s = 0;
  for (size_t step = 0; step < steps; ++step) {
    if (Interrupted()) return absl::CancelledError("interrupted");
    Study& study = *studies[step % studies.size()];
    const size_t repeat = step / studies.size() + 1;
    const double study_begin = NowSeconds();
    EBB_RETURN_IF_ERROR(Annotate(study.RunOnce(samples), study.name()));
    if (step + 1 == studies.size()) first_repeat_s = NowSeconds() - begin;
    const double left_s = repeat == 1 ? first_repeat_s * (arguments.repeats - 1)
                                      : (NowSeconds() - begin) / static_cast<double>(step + 1) *
                                            static_cast<double>(steps - step - 1);
    fmt::print(stderr, "[storage bench] repeat {}/{} {:14} {:5.1f} s{}\n", repeat,
               arguments.repeats, study.name(), NowSeconds() - study_begin,
               left_s > 0 ? fmt::format(", about {:.0f} s left", left_s) : "");
  }
  return absl::OkStatus();
}

// The figures that were asked for: InvalidArgument when one has no such name.
absl::StatusOr<std::vector<const FigureSpec*>> Choose(const std::vector<std::string>& only) {
  std::vector<const FigureSpec*> chosen;
  std::set<std::string> names(only.begin(), only.end());
  for (const FigureSpec& spec : FigureTable()) {
    if (only.empty() || names.erase(spec.name) > 0) chosen.push_back(&spec);
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
    const bool wanted = std::any_of(specs.begin(), specs.end(), [&](const FigureSpec* spec) {
      return StudyOf(*spec) == &entry;
    });
    if (wanted) entries.push_back(&entry);
  }
  BenchOptions options;
  options.quick = arguments.quick;
  options.program_path = std::filesystem::read_symlink("/proc/self/exe").string();
  EBB_ASSIGN_OR_RETURN(options.memory_dir, experiments::MakeScratchFolder(arguments.memory_parent));
  const Scratch memory(options.memory_dir);
  EBB_ASSIGN_OR_RETURN(options.disk_dir, experiments::MakeScratchFolder(arguments.disk_parent));
  const Scratch disk(options.disk_dir);
  const BenchRun run{.bench = "storage",
                     .out_path = arguments.out_path,
                     .commit = arguments.commit,
                     .repeats = arguments.repeats,
                     .quick = arguments.quick,
                     .load_average_at_start = LoadAverage()};

  Samples samples;
  EBB_RETURN_IF_ERROR(RunRepeats(arguments, entries, options, samples));
  return Report(run, specs, samples);
}

int Main(int argc, char** argv) {
  CLI::App app{"Speed of the store beside its peers"};
  Arguments arguments;
  app.add_option("--out", arguments.out_path, "write the figures as JSON to this file");
  app.add_option("--commit", arguments.commit, "commit to name in the file");
  app.add_option("--repeats", arguments.repeats, "repeats; the median is the figure")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--only", arguments.only, "figures to measure, by name")->delimiter(',');
  app.add_flag("--quick", arguments.quick, "short phases: to see that it works, not for figures");
  app.add_option("--disk", arguments.disk_parent, "folder on the real disk for scratch files")
      ->capture_default_str();
  app.add_option("--memory", arguments.memory_parent, "folder in memory for scratch files")
      ->capture_default_str();
  app.add_option("--probe-memory", arguments.probe_memory_bytes)->group("");
  CLI11_PARSE(app, argc, argv);
  if (arguments.probe_memory_bytes > 0) {
    const absl::Status status = ProbeMemory(arguments.probe_memory_bytes);
    if (!status.ok()) fmt::print(stderr, "{}\n", status.ToString());
    return status.ok() ? 0 : 2;
  }
  CatchInterrupts();
  const absl::StatusOr<bool> all_hold = RunBench(arguments);
  if (!all_hold.ok()) {
    fmt::print(stderr, "storage bench: {}\n", all_hold.status().ToString());
    return 2;
  }
  return *all_hold ? 0 : 1;
}

}  // namespace
}  // namespace ebb::storage_bench

int main(int argc, char** argv) {
  try {
    return ebb::storage_bench::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "storage bench: {}\n", error.what());
    return 2;
  }
}
