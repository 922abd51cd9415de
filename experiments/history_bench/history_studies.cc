#include "experiments/history_bench/history_studies.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu_time.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/units.h"
#include "engine/history/history.h"
#include "experiments/history_bench/generator.h"
#include "experiments/support/bench_progress.h"
#include "fmt/format.h"

namespace ebb::history_bench {
namespace {

using engine::ChangeQuery;
using engine::History;
using engine::Verdict;
using storage_bench::Samples;

constexpr uint64_t kSeed = 1;
constexpr int kOpens = 5;
constexpr uint32_t kPage = 100;  // what REST gives when not asked for more
constexpr uint32_t kLargestPage = 500;
constexpr int kColdQueries = 20;

double SecondsSince(uint64_t begin_ns) {
  return static_cast<double>(RealClock().MonotonicNs() - begin_ns) / 1e9;
}

// How long this thread was ready to run and other programs had the processors.
double WaitedForProcessorSeconds() {
  std::ifstream file("/proc/thread-self/schedstat");
  uint64_t ran_ns = 0;
  uint64_t waited_ns = 0;
  return file >> ran_ns >> waited_ns ? static_cast<double>(waited_ns) / 1e9 : 0;
}

// Time from its making.
class StopWatch {
 public:
  double Seconds() const { return SecondsSince(begin_ns_); }
  // Without waiting for a processor that other programs had, but with all waiting for the disk.
  double OwnSeconds() const { return Seconds() - (WaitedForProcessorSeconds() - begin_waited_); }
  double CpuSeconds() const { return ProcessCpuSeconds() - begin_cpu_; }

 private:
  const double begin_waited_ = WaitedForProcessorSeconds();
  const double begin_cpu_ = ProcessCpuSeconds();
  const uint64_t begin_ns_ = RealClock().MonotonicNs();
};

int GenerateInChild(const std::string& directory, uint64_t events,
                    const std::function<bool()>& stop) {
  auto history = engine::OpenHistory(directory, {});
  if (!history.ok()) return 1;
  HistoryGenerator generator(**history, events, kSeed);
  experiments::BenchProgress progress("history", static_cast<double>(events));
  progress.Begin("writing events");
  for (uint64_t done = 0; done < events && !stop(); done += HistoryGenerator::kEventsPerChange) {
    if (!generator.WriteChange().ok()) return 2;
    progress.Advance(HistoryGenerator::kEventsPerChange);
  }
  progress.End();
  // Never closed: what the memory tables hold must come out of the log.
  static_cast<void>(history->release());
  return stop() ? 3 : 0;
}

// Files' pages leave memory, so that the disk is asked again.
void ForgetPages(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const int file = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    fdatasync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
  }
}

// As EngineService and its loops ask a history at their start.
absl::StatusOr<std::unique_ptr<History>> OpenAsSidecar(const std::string& directory) {
  EBB_ASSIGN_OR_RETURN(auto history, engine::OpenHistory(directory, {}));
  EBB_RETURN_IF_ERROR(history->Documents("node/").status());
  for (const std::string& node : Nodes()) {
    ChangeQuery pending;
    pending.verdict = Verdict::kPending;
    EBB_RETURN_IF_ERROR(history->Changes(node, pending).status());
    ChangeQuery newest;
    newest.limit = 1;
    EBB_RETURN_IF_ERROR(history->Changes(node, newest).status());
  }
  return history;
}

struct FilterKind {
  const char* name;
  std::function<void(Rng&, std::string& node, ChangeQuery&)> fill;
};

const std::string& AnyOf(const std::vector<std::string>& values, Rng& rng) {
  return values[rng.Below(values.size())];
}

const std::vector<FilterKind>& FilterKinds() {
  static const std::vector<FilterKind> kinds = {
      {"day", [](Rng&, std::string&, ChangeQuery&) {}},
      {"node", [](Rng& rng, std::string& node, ChangeQuery&) { node = AnyOf(Nodes(), rng); }},
      {"knob", [](Rng& rng, std::string&, ChangeQuery& q) { q.knob = AnyOf(Knobs(), rng); }},
      {"verdict", [](Rng& rng, std::string&,
                     ChangeQuery& q) { q.verdict = static_cast<Verdict>(1 + rng.Below(4)); }},
      {"pending", [](Rng&, std::string&, ChangeQuery& q) { q.verdict = Verdict::kPending; }},
      {"actor",
       [](Rng& rng, std::string&, ChangeQuery& q) {
         q.actor = AnyOf({"agent", "operator", "operator:alice", "foreign"}, rng);
       }},
      {"goal", [](Rng&, std::string&, ChangeQuery& q) { q.goal = "write"; }},
      {"context", [](Rng& rng, std::string&,
                     ChangeQuery& q) { q.context = fmt::format("c{}", 1 + rng.Below(10)); }},
      {"all",
       [](Rng& rng, std::string& node, ChangeQuery& q) {
         node = AnyOf(Nodes(), rng);
         q.knob = AnyOf(Knobs(), rng);
         q.verdict = Verdict::kInconclusive;
         q.actor = "agent";
         q.goal = "balanced";
         q.context = "c1";
       }},
  };
  return kinds;
}

struct Question {
  std::string node;
  ChangeQuery query;
};

Question AskOneDay(const FilterKind& kind, uint32_t limit, Rng& rng) {
  Question question;
  const auto day = static_cast<int64_t>(rng.Below(static_cast<uint64_t>(kDays)));
  question.query.from_ms = kBeginMs + day * engine::kMsPerDay;
  question.query.to_ms = *question.query.from_ms + engine::kMsPerDay;
  question.query.limit = limit;
  kind.fill(rng, question.node, question.query);
  return question;
}

double Percentile99(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() * 99 + 99) / 100 - 1];
}

struct Times {
  std::vector<double> ms;
  std::vector<double> own_ms;
};

absl::Status Ask(History& history, const Question& question, Times& times) {
  const StopWatch watch;
  EBB_RETURN_IF_ERROR(history.Changes(question.node, question.query).status());
  times.own_ms.push_back(1e3 * watch.OwnSeconds());
  times.ms.push_back(1e3 * watch.Seconds());
  return absl::OkStatus();
}

absl::Status MeasureFilters(History& history, uint64_t repeats, uint32_t limit,
                            const std::string& series, Samples& samples) {
  Rng rng(kSeed);
  double worst_ms = 0;
  double worst_own_ms = 0;
  for (const FilterKind& kind : FilterKinds()) {
    Times times;
    for (uint64_t i = 0; i < repeats; ++i) {
      EBB_RETURN_IF_ERROR(Ask(history, AskOneDay(kind, limit, rng), times));
    }
    const double p99_ms = Percentile99(times.ms);
    samples.Add(fmt::format("{}.{}_p99_ms", series, kind.name), p99_ms);
    worst_ms = std::max(worst_ms, p99_ms);
    worst_own_ms = std::max(worst_own_ms, Percentile99(times.own_ms));
  }
  samples.Add(series + ".worst_p99_ms", worst_ms);
  samples.Add(series + ".worst_p99_own_ms", worst_own_ms);
  return absl::OkStatus();
}

}  // namespace

absl::Status Generate(const std::string& directory, uint64_t events,
                      const std::function<bool()>& stop, Samples& samples) {
  const uint64_t begin_ns = RealClock().MonotonicNs();
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(GenerateInChild(directory, events, stop));
  }
  int status = 0;
  while (true) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) return ErrnoStatus(errno, "wait for the writing process");
    if (ended == child) break;
    if (stop()) kill(child, SIGTERM);
    RealClock().SleepUntilNs(RealClock().MonotonicNs() + 100 * kNsPerMs);
  }
  if (stop()) return absl::CancelledError("stopped");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::InternalError(fmt::format("writing the history failed ({})", status));
  }
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const double cpu_seconds = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
  samples.Add("write.events", static_cast<double>(events));
  samples.Add("write.wall_s", SecondsSince(begin_ns));
  samples.Add("write.us_per_event_cpu", 1e6 * cpu_seconds / static_cast<double>(events));
  return absl::OkStatus();
}

absl::Status MeasureOpen(const std::string& directory, Samples& samples) {
  double worst_s = 0;
  for (int i = 0; i < kOpens; ++i) {
    ForgetPages(directory);
    const StopWatch watch;
    EBB_ASSIGN_OR_RETURN(const auto history, OpenAsSidecar(directory));
    const double seconds = watch.Seconds();
    const std::string series = i == 0 ? "open.after_kill" : "open.later";
    samples.Add(series + "_s", seconds);
    samples.Add(series + "_own_s", watch.OwnSeconds());
    samples.Add(series + "_cpu_s", watch.CpuSeconds());
    worst_s = std::max(worst_s, seconds);
  }
  samples.Add("open.worst_s", worst_s);
  return absl::OkStatus();
}

absl::Status MeasureQueries(const std::string& directory, uint64_t repeats, Samples& samples) {
  {
    EBB_ASSIGN_OR_RETURN(const auto history, engine::OpenHistory(directory, {}));
    EBB_RETURN_IF_ERROR(MeasureFilters(*history, repeats, kPage, "query", samples));
    EBB_RETURN_IF_ERROR(MeasureFilters(*history, repeats, kLargestPage, "query_500", samples));
  }
  // The first question after the start, with nothing in memory.
  Times cold;
  Rng rng(kSeed);
  for (int i = 0; i < kColdQueries; ++i) {
    EBB_ASSIGN_OR_RETURN(const auto history, engine::OpenHistory(directory, {}));
    ForgetPages(directory);
    const FilterKind& kind = FilterKinds()[static_cast<size_t>(i) % FilterKinds().size()];
    EBB_RETURN_IF_ERROR(Ask(*history, AskOneDay(kind, kPage, rng), cold));
  }
  samples.Add("query.cold_worst_ms", *std::max_element(cold.ms.begin(), cold.ms.end()));
  return absl::OkStatus();
}

absl::Status MeasureSizeAndVerify(const std::string& directory, Samples& samples) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    bytes += entry.file_size();
  }
  EBB_ASSIGN_OR_RETURN(const auto history, engine::OpenHistoryForReading(directory));
  const StopWatch watch;
  EBB_ASSIGN_OR_RETURN(const engine::VerifyReport report, history->Verify());
  const auto events = static_cast<double>(report.events);
  samples.Add("verify.events_per_s", events / watch.Seconds());
  samples.Add("verify.events_per_cpu_s", events / watch.CpuSeconds());
  samples.Add("size.bytes_per_event", static_cast<double>(bytes) / events);
  samples.Add("size.gib", static_cast<double>(bytes) / static_cast<double>(kGiB));
  return absl::OkStatus();
}

}  // namespace ebb::history_bench
