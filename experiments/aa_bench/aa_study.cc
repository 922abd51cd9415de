#include "experiments/aa_bench/aa_study.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/status.h"
#include "engine/loop/node_loop.h"

namespace ebb::aa_bench {
namespace {

using engine::Change;
using engine::NodeStatus;
using engine::Verdict;

constexpr uint32_t kPage = 500;
const char* const kNode = "aa";

uint64_t Decided(const NodeStatus& status) {
  uint64_t count = 0;
  for (const Verdict verdict : {Verdict::kKeep, Verdict::kRevert, Verdict::kInconclusive}) {
    count += status.totals.changes[static_cast<size_t>(verdict)];
  }
  return count;
}

// The null agent's changes with a verdict into `result`, oldest first; the others are counted.
absl::Status ReadTrials(engine::History& history, AaResult& result) {
  std::vector<Change>& trials = result.trials;
  engine::ChangeQuery query;
  query.actor = "agent:";
  query.limit = kPage;
  while (true) {
    EBB_ASSIGN_OR_RETURN(std::vector<Change> page, history.Changes(kNode, query));
    for (Change& change : page) {
      if (change.verdict == Verdict::kVoid) {
        std::erase_if(change.verdict_reason, absl::ascii_isdigit);
        ++result.void_trials[change.verdict_reason];
      } else if (change.verdict != Verdict::kPending) {
        trials.push_back(std::move(change));
      }
    }
    if (page.size() < kPage) break;
    query.before_id = page.back().id;
  }
  std::reverse(trials.begin(), trials.end());
  return absl::OkStatus();
}

}  // namespace

engine::LoopConfig AaOptions::AaLoopConfig() {
  engine::LoopConfig config;
  config.envelope.allow_identical = true;
  config.envelope.tabu_windows = 0;
  config.envelope.trials_per_hour_max = 1'000'000;
  config.nulls_before_back_off = 1'000'000;
  config.recheck_after_windows = 0;
  // A knob that does nothing has settled at once, whatever the table says about its kind.
  config.settle_windows_max = 2;
  return config;
}

absl::StatusOr<AaResult> RunAaStudy(const AaOptions& options, Clock& clock,
                                    engine::History& history,
                                    engine::EnvironmentFactory make_environment,
                                    const std::atomic<bool>& stop, const OnWindow& on_window) {
  const engine::AgentFactory make_agent =
      [&options](const std::string&, const env::EnvironmentInfo&,
                 const env::KnobSpace&) -> absl::StatusOr<std::unique_ptr<agents::Agent>> {
    return std::make_unique<NullAgent>(options.sham);
  };
  engine::NodeRecord record;
  record.id = kNode;
  record.goal = options.goal;
  engine::NodeLoop loop({clock, history, std::move(make_environment), make_agent, options.loop},
                        record, nullptr);
  AaResult result;
  NodeStatus status;
  while (!stop.load() && Decided(status) < options.trials) {
    loop.RunOneWindow();
    status = loop.Status();
    if (!status.connected) return absl::UnavailableError("the node was lost: " + status.why);
    if (status.health != "ok") return absl::InternalError("the history failed: " + status.health);
    if (status.index_now) result.indexes.push_back(*status.index_now);
    on_window(Decided(status), status);
  }
  loop.Leave("the study is over");
  result.windows = status.windows;
  result.void_windows = status.void_windows;
  EBB_RETURN_IF_ERROR(ReadTrials(history, result));
  return result;
}

}  // namespace ebb::aa_bench
