// What must be true of a node and its history once a fault is over, whatever the fault was.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/engine/loop/loop_test_helpers.h"

namespace ebb::engine {

// Notes every setting that the node was asked to run although the journal on disk, where a new
// sidecar would look, did not name it.
class JournalWatch {
 public:
  explicit JournalWatch(LoopBench& bench) {
    bench.power.before_change = [this, &bench](const env::Setting& setting) {
      const auto document = bench.history->Document(RecordKey("node-a"));
      if (document.ok() && *document) {
        const auto record = RecordFromJson(**document);
        if (record.ok() && record->open &&
            record->open->to == NameSetting(bench.node.space(), setting)) {
          return;
        }
      }
      ++unannounced_;
    };
  }
  int unannounced() const { return unannounced_; }

 private:
  int unannounced_ = 0;
};

// Changes that the history calls somebody else's.
inline size_t ForeignChanges(LoopBench& bench) {
  const std::vector<Change> changes = bench.Changes();
  return static_cast<size_t>(
      std::count_if(changes.begin(), changes.end(),
                    [](const Change& change) { return change.actor == "foreign"; }));
}

inline NamedSetting NamedIncumbent(LoopBench& bench) {
  return NameSetting(bench.node.space(), bench.node.ReadSettings()->incumbent);
}

// The setting from before attach and every change that the history calls kept, in order.
inline NamedSetting IncumbentByHistory(LoopBench& bench, std::vector<Change> changes) {
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.id < b.id; });
  NamedSetting expected = bench.loop->record().before_attach;
  for (const Change& change : changes) {
    if (change.verdict != Verdict::kKeep) continue;
    for (const env::KnobChange& knob : change.knobs) expected[knob.knob] = knob.to;
  }
  return expected;
}

// Every event, for the messages of failing tests.
inline std::string Story(LoopBench& bench) {
  std::string story;
  bench.history
      ->Events(0,
               [&](const HistoryEvent& event) {
                 story += event.json.substr(0, event.json.find(",\"data\"")) + "\n";
                 return true;
               })
      .IgnoreError();
  return story;
}

// Every fault, one a line; empty when node and history can be trusted. No trial may be under way.
inline std::string TrustFaults(LoopBench& bench) {
  std::string faults;
  const auto expect = [&faults](bool holds, const std::string& fault) {
    if (!holds) faults += fault + "\n";
  };
  const NodeStatus status = bench.loop->Status();
  expect(status.connected, "not connected: " + status.why);
  expect(status.health == "ok", "unwell: " + status.health);
  const env::SettingState state = *bench.node.ReadSettings();
  expect(state.lease.empty(), "a lease is open");
  expect(state.current == state.incumbent, "the node runs no trusted setting");
  expect(!bench.loop->record().open.has_value(), "the journal holds open work");
  const auto verified = bench.history->Verify();
  expect(verified.ok(), std::string(verified.status().message()));

  const std::vector<Change> changes = bench.Changes();
  const std::vector<Recommendation> advice = bench.loop->Recommendations();
  std::vector<uint64_t> ids;
  for (const Change& change : changes) {
    ids.push_back(change.id);
    const bool recommended = std::any_of(advice.begin(), advice.end(), [&](const auto& entry) {
      return entry.change_id == change.id;
    });
    expect(change.verdict != Verdict::kPending || recommended,
           fmt::format("change {} has no verdict", change.id));
    expect(recommended || !change.verdict_reason.empty(),
           fmt::format("change {} has no reason", change.id));
  }
  std::sort(ids.begin(), ids.end());
  for (size_t i = 0; i < ids.size(); ++i) {
    expect(ids[i] == i + 1, fmt::format("change {} is missing or twice there", i + 1));
  }
  const NamedSetting runs = NamedIncumbent(bench);
  const NamedSetting told = IncumbentByHistory(bench, changes);
  const NamedSetting trusted = bench.loop->record().incumbent;
  for (const auto& [knob, value] : runs) {
    const auto by_history = told.find(knob);
    const auto by_record = trusted.find(knob);
    expect(by_history != told.end() && by_history->second == value,
           fmt::format("{} runs at {}, which no kept change explains", knob, value));
    expect(by_record != trusted.end() && by_record->second == value,
           fmt::format("{} runs at {}, the record trusts another value", knob, value));
  }
  return faults;
}

}  // namespace ebb::engine
