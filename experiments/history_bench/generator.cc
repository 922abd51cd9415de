#include "experiments/history_bench/generator.h"

#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace ebb::history_bench {
namespace {

using engine::Change;
using engine::EventDraft;
using engine::Verdict;

}  // namespace

const std::vector<std::string>& Nodes() {
  static const std::vector<std::string> nodes = {"alpha", "beta", "gamma", "delta"};
  return nodes;
}

const std::vector<std::string>& Knobs() {
  static const std::vector<std::string> knobs = {
      "read_cache_bytes",  "destage_watermark",  "destage_rate_mibps", "destage_parallelism",
      "flush_group_us",    "read_ahead_blocks",  "admission_share",    "throttle_start",
      "compression_level", "dedup_sample_share", "compaction_share",   "scrub_mibps"};
  return knobs;
}

HistoryGenerator::HistoryGenerator(engine::History& history, uint64_t events, uint64_t seed)
    : history_(history),
      rng_(seed),
      ms_per_change_(static_cast<double>(kDays * engine::kMsPerDay) * kEventsPerChange /
                     static_cast<double>(events)) {}

Change HistoryGenerator::MakeChange() {
  Change change;
  change.node = Nodes()[changes_ % Nodes().size()];
  change.proposed_ms = now_ms_;
  const uint64_t who = rng_.Below(100);
  change.actor = who < 94   ? "agent:preset_climb"
                 : who < 96 ? "context:c3"
                 : who < 98 ? "operator:root"
                 : who < 99 ? "operator:alice"
                            : "foreign";
  change.goal = rng_.Chance(0.8) ? "balanced" : rng_.Chance(0.5) ? "read" : "write";
  change.context = fmt::format("c{}", 1 + rng_.Below(10));
  const uint64_t first = rng_.Below(Knobs().size());
  const auto value = static_cast<int64_t>(rng_.Below(1 << 20));
  change.knobs.push_back({Knobs()[first], value, value + 4096});
  if (rng_.Chance(0.3)) {
    change.knobs.push_back({Knobs()[(first + 1) % Knobs().size()], value, value / 2});
  }
  const double gain = 0.02 + 0.1 * rng_.Uniform();
  change.predicted = engine::Effect{gain, gain - 0.05, gain + 0.05};
  change.reason = fmt::format(
      "{} one step up: {:.1f} % of reads miss the cache and the capacity devices are busy {:.0f} % "
      "of the time",
      Knobs()[first], 100 * rng_.Uniform(), 100 * rng_.Uniform());
  return change;
}

// Five or six events around each state: what the node tells, and what the caller adds.
absl::Status HistoryGenerator::WriteState(Change& change, const std::string& step,
                                          const std::string& text, std::vector<EventDraft> events) {
  change.steps.push_back({now_ms_, step, text});
  while (events.size() < (step == "proposed" ? 5U : 6U)) {
    const size_t i = events.size();
    events.push_back(Event(
        change, "node_event",
        i % 2 == 0 ? "lease taken by the tuner" : "lease renewed by the tuner",
        fmt::format(R"({{"node_event":{},"lease_ms":15000}})", changes_ * kEventsPerChange + i)));
  }
  engine::HistoryWrite write;
  write.change = &change;
  write.change_event = step;
  write.wall_ms = now_ms_;
  write.events = std::move(events);
  write.sync = false;
  return history_.Write(write);
}

absl::Status HistoryGenerator::WriteChange() {
  now_ms_ = kBeginMs + static_cast<int64_t>(static_cast<double>(changes_) * ms_per_change_);
  Change change = MakeChange();
  ++changes_;
  EBB_RETURN_IF_ERROR(WriteState(
      change, "proposed", change.reason,
      {Event(change, "holdback", "the default setting ran for 12 windows, to see what tuning gives",
             R"({"windows":12,"uplift":0.081,"low":0.052,"high":0.11})"),
       Event(change, "shift", "the load is another one: c4 after c3",
             R"({"from":"c3","to":"c4"})")}));
  now_ms_ += 800;
  change.applied_ms = now_ms_;
  EBB_RETURN_IF_ERROR(
      WriteState(change, "applied", "applied under a lease and read back",
                 {Event(change, "node_event", "setting applied by agent:preset_climb",
                        fmt::format(R"({{"version":{}}})", changes_))}));
  now_ms_ += 40'000;
  change.decided_ms = now_ms_;
  const uint64_t outcome = rng_.Below(100);
  change.verdict = outcome < 10   ? Verdict::kKeep
                   : outcome < 25 ? Verdict::kRevert
                   : outcome < 95 ? Verdict::kInconclusive
                                  : Verdict::kVoid;
  const double effect = 0.2 * rng_.Uniform() - 0.1;
  change.measured = engine::Effect{effect, effect - 0.03, effect + 0.03};
  change.smallest_detectable = 0.03;
  change.windows_used = static_cast<uint32_t>(12 + rng_.Below(30));
  change.verdict_reason =
      fmt::format("{:+.1f} %, within {:.1f} and {:.1f} % at 95 %, {} windows", 100 * effect,
                  100 * effect - 3, 100 * effect + 3, change.windows_used);
  return WriteState(
      change, std::string(engine::VerdictWord(change.verdict)), change.verdict_reason,
      {Event(change, "mode", "tuning goes on: auto, by operator:root"),
       Event(change, "void", "a window said nothing: the clients asked for nothing")});
}

EventDraft HistoryGenerator::Event(const Change& change, const std::string& kind,
                                   const std::string& text, const std::string& data) const {
  return {now_ms_, change.node, kind, text, data};
}

}  // namespace ebb::history_bench
