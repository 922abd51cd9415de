// A history that somebody edited, and one whose disk is full.
#include <gtest/gtest.h>

#include "engine/history/history.h"
#include "tests/engine/history/history_test_helpers.h"
#include "tests/engine/history/watched_store.h"

namespace ebb::engine {
namespace {

class HistoryTamperTest : public testing::Test {
 protected:
  using Rows = std::vector<std::pair<std::string, std::string>>;

  void SetUp() override {
    store_ = MakeMemoryStore();
    auto watched = std::make_unique<WatchedStore>(*store_);
    watched_ = watched.get();
    history_ = *History::Open(std::move(watched), {});
    for (int64_t i = 0; i < 5; ++i) {
      Change change = MakeChange("a", i, "read_cache_bytes");
      ASSERT_TRUE(Put(*history_, change).ok());
    }
    ASSERT_TRUE(history_->Verify().ok());
  }
  Rows RowsOf(Table table) {
    Rows rows;
    EXPECT_TRUE(store_
                    ->Scan(table, "", "\xff\xff", false,
                           [&](std::string_view key, std::string_view value) {
                             rows.emplace_back(key, value);
                             return true;
                           })
                    .ok());
    return rows;
  }
  void Edit(const std::vector<StoreEdit>& batch) { ASSERT_TRUE(store_->Write(batch, true).ok()); }

  std::unique_ptr<OrderedStore> store_;
  WatchedStore* watched_ = nullptr;
  std::unique_ptr<History> history_;
};

TEST_F(HistoryTamperTest, AnAlteredEventShows) {
  Rows rows = RowsOf(Table::kEvents);
  rows[2].second.back() ^= 1;
  Edit({{Table::kEvents, rows[2].first, rows[2].second}});

  EXPECT_EQ(history_->Verify().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(HistoryTamperTest, ARemovedEventShows) {
  Edit({{Table::kEvents, RowsOf(Table::kEvents)[2].first, std::nullopt}});

  EXPECT_NE(history_->Verify().status().message().find("event 3 is missing"), std::string::npos);
}

TEST_F(HistoryTamperTest, ARemovedTailShowsAtOpen) {
  Edit({{Table::kEvents, RowsOf(Table::kEvents)[4].first, std::nullopt}});

  const auto opened = History::Open(std::make_unique<WatchedStore>(*store_), {});

  EXPECT_EQ(opened.status().code(), absl::StatusCode::kDataLoss) << opened.status();
}

TEST_F(HistoryTamperTest, SwappedEventsShow) {
  const Rows rows = RowsOf(Table::kEvents);
  Edit({{Table::kEvents, rows[1].first, rows[2].second},
        {Table::kEvents, rows[2].first, rows[1].second}});

  EXPECT_EQ(history_->Verify().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(HistoryTamperTest, AChangePointedToAnOldStateShows) {
  Change change = *history_->GetChange(1);
  change.verdict = Verdict::kRevert;
  ASSERT_TRUE(Put(*history_, change, "reverted").ok());
  Edit({{Table::kChanges, RowsOf(Table::kChanges)[0].first, RowsOf(Table::kEvents)[0].first}});

  EXPECT_NE(history_->Verify().status().message().find("change 1"), std::string::npos);
}

TEST_F(HistoryTamperTest, AFullDiskLosesAndInventsNothing) {
  watched_->set_writes_left(0);
  Change change = MakeChange("a", 100, "read_cache_bytes");
  EXPECT_EQ(Put(*history_, change).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(change.id, 0U);

  watched_->set_writes_left(WatchedStore::kNoLimit);
  ASSERT_TRUE(Put(*history_, change).ok());

  EXPECT_EQ(change.id, 6U);
  EXPECT_TRUE(history_->Verify().ok());
}

}  // namespace
}  // namespace ebb::engine
