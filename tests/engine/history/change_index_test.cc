// Queries for changes: by every filter, alone and together, against all changes looked through.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/history/history.h"
#include "tests/engine/history/history_test_helpers.h"
#include "tests/engine/history/watched_history.h"

namespace ebb::engine {
namespace {

constexpr int64_t kSpanMs = 100'000;
const std::vector<std::string> kNodes = {"a", "ab", "b"};
const std::vector<std::string> kKnobs = {"cache", "destage", "destage_rate", "flush"};
const std::vector<std::string> kActors = {"agent:climb", "agent:random", "foreign", "operator:eve",
                                          "operator:root"};
const std::vector<std::string> kGoals = {"read", "write", "balanced"};
const std::vector<std::string> kContexts = {"", "c1", "c10", "c2"};

class ChangeIndexTest : public WatchedHistoryTest {
 protected:
  template <typename T>
  const T& OneOf(const std::vector<T>& values) {
    return values[rng_.Below(values.size())];
  }
  Verdict AnyVerdict() { return static_cast<Verdict>(rng_.Below(5)); }

  // Changes at random times, many at the same; two thirds get other verdicts later.
  void Write(int count) {
    for (int i = 0; i < count; ++i) {
      Change change =
          MakeChange(OneOf(kNodes), static_cast<int64_t>(rng_.Below(kSpanMs / 100)) * 100,
                     OneOf(kKnobs), OneOf(kActors));
      change.knobs.push_back({OneOf(kKnobs), 1, 2});
      change.goal = OneOf(kGoals);
      change.context = OneOf(kContexts);
      ASSERT_TRUE(Put(*history_, change).ok());
      changes_.push_back(change);
      for (uint64_t again = rng_.Below(3); again > 0; --again) {
        Change& later = changes_[rng_.Below(changes_.size())];
        later.verdict = AnyVerdict();
        later.context = OneOf(kContexts);
        ASSERT_TRUE(Put(*history_, later, "decided").ok());
      }
    }
    std::sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) {
      return std::pair(a.proposed_ms, a.id) > std::pair(b.proposed_ms, b.id);
    });
  }
  ChangeQuery AnyQuery() {
    ChangeQuery query;
    if (rng_.Chance(0.3)) query.from_ms = static_cast<int64_t>(rng_.Below(kSpanMs));
    if (rng_.Chance(0.3)) query.to_ms = static_cast<int64_t>(rng_.Below(kSpanMs));
    if (rng_.Chance(0.4)) query.knob = OneOf(kKnobs);
    if (rng_.Chance(0.3)) query.verdict = AnyVerdict();
    if (rng_.Chance(0.3)) query.goal = OneOf(kGoals);
    if (rng_.Chance(0.3)) query.context = OneOf(kContexts);
    if (rng_.Chance(0.4))
      query.actor = OneOf<std::string>({"agent", "operator", "operator:e", "x"});
    return query;
  }
  std::vector<uint64_t> Expected(const std::string& node, const ChangeQuery& query) {
    std::vector<uint64_t> ids;
    for (const Change& change : changes_) {
      const bool knob = query.knob.empty() ||
                        std::any_of(change.knobs.begin(), change.knobs.end(),
                                    [&](const auto& moved) { return moved.knob == query.knob; });
      if (knob && (node.empty() || change.node == node) &&
          change.proposed_ms >= query.from_ms.value_or(0) &&
          change.proposed_ms < query.to_ms.value_or(kSpanMs) &&
          change.verdict == query.verdict.value_or(change.verdict) &&
          change.actor.starts_with(query.actor) &&
          (query.goal.empty() || change.goal == query.goal) &&
          (query.context.empty() || change.context == query.context)) {
        ids.push_back(change.id);
      }
    }
    return ids;
  }
  // Page by page to the end.
  std::vector<uint64_t> Paged(const std::string& node, ChangeQuery query) {
    std::vector<uint64_t> ids;
    while (true) {
      const auto page = history_->Changes(node, query);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok() || page->empty()) return ids;
      for (const Change& change : *page) ids.push_back(change.id);
      query.before_id = ids.back();
    }
  }
  void ExpectQueriesAreRight(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string node = rng_.Chance(0.5) ? "" : OneOf(kNodes);
      ChangeQuery query = AnyQuery();
      query.limit = static_cast<uint32_t>(1 + rng_.Below(9));
      ASSERT_EQ(Paged(node, query), Expected(node, query)) << "query " << i;
    }
  }

  Rng rng_{11};
  std::vector<Change> changes_;
};

TEST_P(ChangeIndexTest, EveryFilterFindsAndPagesWhatMatches) {
  Write(400);
  ExpectQueriesAreRight(300);
}

// A rare value costs what it is, not what was.
TEST_P(ChangeIndexTest, AQueryReadsNoChangeThatDoesNotMatch) {
  for (int64_t i = 0; i < 3'000; ++i) {
    const bool rare = i % 600 == 0;
    Change change =
        MakeChange("a", i, rare ? "rare_knob" : "cache", rare ? "operator:eve" : "agent:climb");
    change.goal = rare ? "write" : "read";
    change.context = rare ? "c9" : "c1";
    change.verdict = rare ? Verdict::kKeep : Verdict::kRevert;
    ASSERT_TRUE(Put(*history_, change).ok());
  }
  const auto check = [&](auto fill) {
    ChangeQuery query;
    query.from_ms = 1;
    fill(query);
    for (const std::string node : {"", "a"}) {
      const uint64_t events = watched_->events_read();
      const uint64_t moves = watched_->cursor_moves();
      const auto found = history_->Changes(node, query);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(found->size(), 4U);
      EXPECT_EQ(watched_->events_read() - events, 4U);
      EXPECT_LE(watched_->cursor_moves() - moves, 30U);
    }
  };
  check([](ChangeQuery& query) { query.knob = "rare_knob"; });
  check([](ChangeQuery& query) { query.verdict = Verdict::kKeep; });
  check([](ChangeQuery& query) { query.actor = "operator"; });
  check([](ChangeQuery& query) { query.goal = "write"; });
  check([](ChangeQuery& query) { query.context = "c9"; });
  check([](ChangeQuery& query) {
    query.actor = "operator:eve";
    query.knob = "rare_knob";
    query.verdict = Verdict::kKeep;
  });
}

// Two long lists with nothing in common: as many moves as the shorter is long, and no change read.
TEST_P(ChangeIndexTest, ListsWithNothingInCommonSkipEachOther) {
  for (int64_t i = 0; i < 2'000; ++i) {
    Change change = MakeChange("a", i, i < 1'000 ? "cache" : "flush");
    change.verdict = i < 1'000 ? Verdict::kKeep : Verdict::kRevert;
    ASSERT_TRUE(Put(*history_, change).ok());
  }
  const uint64_t events = watched_->events_read();
  const uint64_t moves = watched_->cursor_moves();
  ChangeQuery query;
  query.knob = "cache";
  query.verdict = Verdict::kRevert;

  const auto found = history_->Changes("", query);

  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->empty());
  EXPECT_EQ(watched_->events_read(), events);
  EXPECT_LE(watched_->cursor_moves() - moves, 6U);
}

// A history of before has no lists by goal and context.
TEST_P(ChangeIndexTest, AnOldHistoryGetsWhatItLacks) {
  Write(300);
  std::vector<StoreEdit> old = {{Table::kDocuments, "history/change_index", std::nullopt}};
  for (const char kind : {'g', 'c'}) {
    ASSERT_TRUE(store_
                    ->Scan(Table::kChangeIndex, std::string(1, kind),
                           std::string(1, static_cast<char>(kind + 1)), false,
                           [&](std::string_view key, std::string_view /*value*/) {
                             old.push_back({Table::kChangeIndex, std::string(key), std::nullopt});
                             return true;
                           })
                    .ok());
  }
  ASSERT_TRUE(store_->Write(old, true).ok());
  HistoryConfig reading;
  reading.read_only = true;
  Open(reading);
  ExpectQueriesAreRight(60);
  EXPECT_EQ(watched_->syncs(), 0U);

  OpenInSpiteOfAFullDisk();
  Write(20);
  ExpectQueriesAreRight(60);
  ChangeQuery query;
  query.context = "c10";
  const uint64_t events = watched_->events_read();
  const auto found = history_->Changes("b", query);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(watched_->events_read() - events, found->size());
}

INSTANTIATE_TEST_SUITE_P(Stores, ChangeIndexTest, StoreKinds(), StoreKindName);

}  // namespace
}  // namespace ebb::engine
