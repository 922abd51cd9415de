#include "experiments/storage_bench/bench_report.h"

#include <fstream>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>

#include "base/status.h"
#include "base/text_file.h"

namespace ebb::storage_bench {
namespace {

nlohmann::json Machine(double load_average_at_start) {
  utsname names{};
  uname(&names);
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string model = "unknown";
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    model = line.substr(line.find(':') + 2);
    break;
  }
  return {{"cpu", model},
          {"cores", std::thread::hardware_concurrency()},
          {"kernel", std::string(names.release)},
          {"load_average_at_start", load_average_at_start}};
}

}  // namespace

double LoadAverage() {
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

absl::StatusOr<bool> Report(const BenchRun& run, std::span<const FigureSpec> specs,
                            const Samples& samples) {
  std::vector<Figure> figures;
  bool all_hold = true;
  for (const FigureSpec& spec : specs) {
    figures.push_back(Evaluate(spec, samples));
    all_hold = all_hold && figures.back().holds;
  }
  fmt::print("{}", FormatTable(figures, samples));
  if (run.out_path.empty()) return all_hold;
  nlohmann::json report = ToJson(figures, samples);
  report["bench"] = run.bench;
  report["machine"] = Machine(run.load_average_at_start);
  report["commit"] = run.commit;
  report["repeats"] = run.repeats;
  report["quick"] = run.quick;
  EBB_RETURN_IF_ERROR(WriteTextFile(run.out_path, report.dump(1) + "\n"));
  return all_hold;
}

}  // namespace ebb::storage_bench
