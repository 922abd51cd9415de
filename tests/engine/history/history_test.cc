// One contract for the history on RocksDB and in memory, then what only the one on disk can show.
#include "engine/history/history.h"

#include <csignal>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/history/change_json.h"
#include "tests/engine/history/history_test_helpers.h"
#include "tests/engine/history/watched_history.h"
#include "tests/support/program.h"

namespace ebb::engine {
namespace {

class HistoryContract : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override { Reopen(); }
  // The in-memory store ends with its object, so only the one on disk is really opened again.
  void Reopen() {
    if (GetParam() == StoreKind::kMemory) {
      if (!history_) history_ = MakeMemoryHistory();
      return;
    }
    history_.reset();
    absl::StatusOr<std::unique_ptr<History>> opened = OpenHistory(scratch_.path() + "/h", {});
    ASSERT_TRUE(opened.ok()) << opened.status();
    history_ = *std::move(opened);
  }
  std::vector<uint64_t> Ids(const std::string& node, const ChangeQuery& query) {
    std::vector<uint64_t> ids;
    absl::StatusOr<std::vector<Change>> changes = history_->Changes(node, query);
    EXPECT_TRUE(changes.ok()) << changes.status();
    if (!changes.ok()) return ids;
    for (const Change& change : *changes) ids.push_back(change.id);
    return ids;
  }

  ebb::testing::ScratchFolder scratch_;
  std::unique_ptr<History> history_;
};

TEST_P(HistoryContract, KeepsAChangeInItsNewestState) {
  Change change = MakeChange("node-a", 1000, "read_cache_bytes");
  ASSERT_TRUE(Put(*history_, change).ok());
  ASSERT_EQ(change.id, 1U);
  change.verdict = Verdict::kKeep;
  change.verdict_reason = "better";
  change.context = "c3";
  change.measured = Effect{0.08, 0.04, 0.12};
  change.decided_ms = 2000;
  change.windows_used = 25;
  change.steps.push_back({2000, "kept", "better"});
  ASSERT_TRUE(Put(*history_, change, "kept").ok());

  Reopen();

  const absl::StatusOr<Change> found = history_->GetChange(1);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(ChangeToJson(*found), ChangeToJson(change));
  EXPECT_EQ(found->steps.size(), 2U);
  EXPECT_EQ(history_->GetChange(2).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(HistoryContract, FindsChangesByTimeKnobVerdictAndActor) {
  for (int64_t i = 0; i < 20; ++i) {
    Change change = MakeChange(i % 2 == 0 ? "a" : "b", 1000 + 100 * i,
                               i % 3 == 0 ? "read_cache_bytes" : "destage_watermark",
                               i % 5 == 0 ? "operator:root" : "agent:random");
    ASSERT_TRUE(Put(*history_, change).ok());
    if (i >= 10) {
      change.verdict = i % 4 == 0 ? Verdict::kKeep : Verdict::kRevert;
      ASSERT_TRUE(Put(*history_, change, "decided").ok());
    }
  }
  auto query = [](auto fill) {
    ChangeQuery made;
    fill(made);
    return made;
  };

  using Expected = std::vector<uint64_t>;
  EXPECT_EQ(Ids("a", query([](auto& q) { q.limit = 3; })), (Expected{19, 17, 15}));
  EXPECT_EQ(Ids("", query([](auto& q) { q.limit = 3; })), (Expected{20, 19, 18}));
  EXPECT_EQ(Ids("a", query([](auto& q) {
                  q.before_id = 15;
                  q.limit = 2;
                })),
            (Expected{13, 11}));
  EXPECT_EQ(Ids("a", query([](auto& q) {
                  q.from_ms = 1200;
                  q.to_ms = 1800;
                })),
            (Expected{7, 5, 3}));
  EXPECT_EQ(Ids("a", query([](auto& q) { q.knob = "read_cache_bytes"; })),
            (Expected{19, 13, 7, 1}));
  EXPECT_EQ(Ids("a", query([](auto& q) { q.verdict = Verdict::kKeep; })), (Expected{17, 13}));
  EXPECT_EQ(Ids("b", query([](auto& q) { q.verdict = Verdict::kPending; })),
            (Expected{10, 8, 6, 4, 2}));
  EXPECT_EQ(Ids("", query([](auto& q) { q.actor = "operator"; })), (Expected{16, 11, 6, 1}));
  EXPECT_EQ(Ids("a", query([](auto& q) {
                  q.from_ms = 2000;
                  q.knob = "destage_watermark";
                  q.verdict = Verdict::kRevert;
                })),
            (Expected{15, 11}));
  EXPECT_EQ(Ids("nobody", {}), Expected{});
  EXPECT_EQ(history_->Changes("a", query([](auto& q) { q.before_id = 99; })).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_P(HistoryContract, WritesEventsChangeAndDocumentsTogether) {
  Change change = MakeChange("a", 5, "read_cache_bytes");
  HistoryWrite write;
  write.events = {{5, "a", "goal", "the goal is now read", R"({"goal":"read"})"}};
  write.change = &change;
  write.change_event = "proposed";
  write.wall_ms = 5;
  write.documents = {{"node/a", "state"}, {"node/b", "other"}};
  ASSERT_TRUE(history_->Write(write).ok());
  HistoryWrite removal;
  removal.documents = {{"node/b", std::nullopt}};
  ASSERT_TRUE(history_->Write(removal).ok());

  Reopen();

  EXPECT_EQ(*history_->Document("node/a"), "state");
  EXPECT_EQ(*history_->Document("node/b"), std::nullopt);
  const auto documents = history_->Documents("node/");
  ASSERT_TRUE(documents.ok());
  ASSERT_EQ(documents->size(), 1U);
  EXPECT_EQ(documents->front().first, "node/a");
  std::vector<nlohmann::json> events;
  ASSERT_TRUE(history_
                  ->Events(0,
                           [&](const HistoryEvent& event) {
                             events.push_back(nlohmann::json::parse(event.json));
                             return true;
                           })
                  .ok());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["kind"], "goal");
  EXPECT_EQ(events[0]["data"]["goal"], "read");
  EXPECT_EQ(events[1]["kind"], "change.proposed");
  EXPECT_EQ(events[1]["data"]["id"], 1);
}

TEST_P(HistoryContract, VerifiesWhatItWrote) {
  for (int64_t i = 0; i < 50; ++i) {
    Change change = MakeChange("a", i, "read_cache_bytes");
    ASSERT_TRUE(Put(*history_, change).ok());
    change.verdict = Verdict::kRevert;
    ASSERT_TRUE(Put(*history_, change, "reverted").ok());
  }
  Reopen();

  const absl::StatusOr<VerifyReport> report = history_->Verify();

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->events, 100U);
  EXPECT_EQ(report->changes, 50U);
  EXPECT_EQ(report->head_hash.size(), 64U);
}

TEST_P(HistoryContract, BytesThatAreNoTextDoNotHurt) {
  Change change = MakeChange("a", 1, "read_cache_bytes");
  change.reason = "node says \xff\xfe\" and a newline\n,\"data\":{}";
  ASSERT_TRUE(Put(*history_, change).ok());
  change.steps.back().text = change.reason;
  ASSERT_TRUE(Put(*history_, change).ok());

  EXPECT_TRUE(history_->GetChange(1).ok()) << history_->GetChange(1).status();
  EXPECT_TRUE(history_->Verify().ok());
}

INSTANTIATE_TEST_SUITE_P(Stores, HistoryContract, StoreKinds(), StoreKindName);

[[noreturn]] void WriteUntilKilled(const std::string& directory, int pipe_end) {
  auto history = OpenHistory(directory, {});
  if (!history.ok()) _exit(1);
  for (int64_t i = 0;; ++i) {
    Change change = MakeChange("a", i, "read_cache_bytes");
    if (!Put(**history, change).ok()) _exit(2);
    if (write(pipe_end, &change.id, sizeof change.id) < 0) _exit(3);
  }
}

// Goal: what Write promised is there after kill -9.
// Method: a child writes changes and tells each id through a pipe once Write returned; it is killed
// in the middle.
TEST(RocksHistoryTest, SurvivesKill9) {
  ebb::testing::ScratchFolder scratch;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) WriteUntilKilled(scratch.path() + "/h", pipe_ends[1]);
  uint64_t promised = 0;
  while (promised < 60) ASSERT_EQ(read(pipe_ends[0], &promised, sizeof promised), 8);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  close(pipe_ends[1]);
  while (read(pipe_ends[0], &promised, sizeof promised) == 8) {
  }
  close(pipe_ends[0]);

  auto history = OpenHistory(scratch.path() + "/h", {});

  ASSERT_TRUE(history.ok()) << history.status();
  const auto report = (*history)->Verify();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GE(report->changes, promised);
  EXPECT_LE(report->changes, promised + 1);
}

TEST(RocksHistoryTest, RefusesADirectoryInUse) {
  ebb::testing::ScratchFolder scratch;
  auto first = OpenHistory(scratch.path() + "/h", {});
  ASSERT_TRUE(first.ok());

  const auto second = OpenHistory(scratch.path() + "/h", {});

  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition) << second.status();
}

TEST(ChangeJsonTest, AChangeOfBeforeContextsIsRead) {
  std::string text = ChangeToJson(MakeChange("node-a", 1000, "read_cache_bytes"));
  const std::string field = "\"context\":\"\",";
  ASSERT_NE(text.find(field), std::string::npos);
  text.erase(text.find(field), field.size());

  const absl::StatusOr<Change> change = ChangeFromJson(text);

  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(change->context, "");
  EXPECT_EQ(change->node, "node-a");
}

}  // namespace
}  // namespace ebb::engine
