// The contract of MetadataStore, on both implementations.
#include "storage-backend/metadata/metadata_store.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage-backend/metadata/mem_metadata.h"

namespace ebb::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

using Rows = std::vector<std::pair<std::string, std::string>>;

Rows ScanAll(MetadataStore& store, Table table, std::string_view first = "",
             std::string_view last = "") {
  Rows rows;
  EXPECT_TRUE(store
                  .Scan(table, first, last,
                        [&](std::string_view key, std::string_view value) {
                          rows.emplace_back(key, value);
                          return true;
                        })
                  .ok());
  return rows;
}

absl::Status PutOne(MetadataStore& store, Table table, std::string_view key, std::string_view value,
                    bool durable = true) {
  MetadataBatch batch;
  batch.Put(table, key, value);
  return store.Commit(batch, durable);
}

class MetadataContract : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "rocks") {
      directory_ = testing::TempDir() + "/metadata_contract_XXXXXX";
      ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    }
    Reopen();
  }
  void TearDown() override {
    store_.reset();
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }
  void Reopen() {
    if (GetParam() == "mem") {
      if (store_ == nullptr) store_ = std::make_unique<MemMetadata>();
      return;
    }
    store_.reset();
    absl::StatusOr<std::unique_ptr<MetadataStore>> store = OpenRocksMetadata(directory_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::string directory_;
  std::unique_ptr<MetadataStore> store_;
};

TEST_P(MetadataContract, GetReturnsWhatWasCommitted) {
  ASSERT_TRUE(PutOne(*store_, Table::kMap, "a", "1").ok());

  EXPECT_EQ(**store_->Get(Table::kMap, "a"), "1");
  EXPECT_FALSE(store_->Get(Table::kMap, "b")->has_value());
}

TEST_P(MetadataContract, TablesAreSeparate) {
  for (const Table table :
       {Table::kMap, Table::kUnits, Table::kFingerprints, Table::kSegments, Table::kNode}) {
    ASSERT_TRUE(PutOne(*store_, table, "key", TableName(table)).ok());
  }

  for (const Table table :
       {Table::kMap, Table::kUnits, Table::kFingerprints, Table::kSegments, Table::kNode}) {
    EXPECT_EQ(**store_->Get(table, "key"), TableName(table));
  }
}

TEST_P(MetadataContract, KeysAndValuesAreBytes) {
  const std::string key("\0\xff\0k", 4);
  const std::string value("\0v\0", 3);

  ASSERT_TRUE(PutOne(*store_, Table::kUnits, key, value).ok());
  ASSERT_TRUE(PutOne(*store_, Table::kUnits, "empty", "").ok());

  EXPECT_EQ(**store_->Get(Table::kUnits, key), value);
  EXPECT_EQ(**store_->Get(Table::kUnits, "empty"), "");
}

TEST_P(MetadataContract, LaterChangeOfABatchWins) {
  MetadataBatch batch;
  batch.Put(Table::kMap, "a", "1");
  batch.Put(Table::kMap, "a", "2");
  batch.Put(Table::kMap, "b", "1");
  batch.Delete(Table::kMap, "b");
  ASSERT_TRUE(store_->Commit(batch, true).ok());

  EXPECT_THAT(ScanAll(*store_, Table::kMap), ElementsAre(Pair("a", "2")));
}

TEST_P(MetadataContract, DeleteOfAnAbsentKeyIsFine) {
  MetadataBatch batch;
  batch.Delete(Table::kMap, "nothing");
  EXPECT_TRUE(store_->Commit(batch, true).ok());
  EXPECT_TRUE(store_->Commit(MetadataBatch(), true).ok());
}

TEST_P(MetadataContract, MultiGetKeepsTheOrderOfItsKeys) {
  for (const char* key : {"c", "a", "b"}) {
    ASSERT_TRUE(PutOne(*store_, Table::kMap, key, std::string("value of ") + key).ok());
  }

  const auto values = *store_->MultiGet(Table::kMap, {"b", "x", "a", "b"});

  ASSERT_EQ(values.size(), 4u);
  EXPECT_EQ(values[0], "value of b");
  EXPECT_FALSE(values[1].has_value());
  EXPECT_EQ(values[2], "value of a");
  EXPECT_EQ(values[3], "value of b");
  EXPECT_TRUE(store_->MultiGet(Table::kMap, {})->empty());
}

TEST_P(MetadataContract, ScanIsOrderedByBytesAndBounded) {
  for (const char* key : {"b", "\xf0", "a", "c"}) {
    ASSERT_TRUE(PutOne(*store_, Table::kMap, key, "v").ok());
  }

  EXPECT_THAT(ScanAll(*store_, Table::kMap),
              ElementsAre(Pair("a", "v"), Pair("b", "v"), Pair("c", "v"), Pair("\xf0", "v")));
  EXPECT_THAT(ScanAll(*store_, Table::kMap, "b", "c"), ElementsAre(Pair("b", "v")));
  EXPECT_THAT(ScanAll(*store_, Table::kMap, "bb"), ElementsAre(Pair("c", "v"), Pair("\xf0", "v")));
}

TEST_P(MetadataContract, ScanStopsWhenToldAndTheVisitorMayUseTheStore) {
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_TRUE(PutOne(*store_, Table::kMap, key, "v").ok());
  }
  std::string seen;
  ASSERT_TRUE(store_
                  ->Scan(Table::kMap, "", "",
                         [&](std::string_view key, std::string_view) {
                           seen += key;
                           EXPECT_TRUE(PutOne(*store_, Table::kUnits, key, "seen").ok());
                           return key != "b";
                         })
                  .ok());

  EXPECT_EQ(seen, "ab");
  EXPECT_EQ(ScanAll(*store_, Table::kUnits).size(), 2u);
}

TEST_P(MetadataContract, DurableCommitsAreThereAfterReopen) {
  ASSERT_TRUE(PutOne(*store_, Table::kMap, "a", "1", false).ok());
  ASSERT_TRUE(PutOne(*store_, Table::kUnits, "b", "2", true).ok());

  if (GetParam() == "mem") static_cast<MemMetadata&>(*store_).Crash();
  Reopen();

  // A durable commit covers the ones before it.
  EXPECT_EQ(**store_->Get(Table::kMap, "a"), "1");
  EXPECT_EQ(**store_->Get(Table::kUnits, "b"), "2");
}

// Goal: readers see whole batches only.
// Method: one thread moves a token between two keys; another must always count exactly one.
TEST_P(MetadataContract, ReadersSeeWholeBatches) {
  ASSERT_TRUE(PutOne(*store_, Table::kMap, "left", "token").ok());
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; i < 2000; ++i) {
      MetadataBatch batch;
      batch.Delete(Table::kMap, i % 2 == 0 ? "left" : "right");
      batch.Put(Table::kMap, i % 2 == 0 ? "right" : "left", "token");
      EXPECT_TRUE(store_->Commit(batch, false).ok());
    }
    stop = true;
  });
  uint64_t wrong = 0;
  while (!stop) {
    if (ScanAll(*store_, Table::kMap).size() != 1) ++wrong;
  }
  writer.join();

  EXPECT_EQ(wrong, 0u);
}

INSTANTIATE_TEST_SUITE_P(Both, MetadataContract, ::testing::Values("mem", "rocks"),
                         [](const auto& param) { return param.param; });

TEST(MemMetadataTest, CrashForgetsWhatNoDurableCommitCovered) {
  MemMetadata store;
  ASSERT_TRUE(PutOne(store, Table::kMap, "kept", "1", true).ok());
  ASSERT_TRUE(PutOne(store, Table::kMap, "kept", "2", false).ok());
  ASSERT_TRUE(PutOne(store, Table::kMap, "kept", "3", false).ok());
  ASSERT_TRUE(PutOne(store, Table::kMap, "new", "1", false).ok());
  MetadataBatch batch;
  batch.Delete(Table::kMap, "kept");
  ASSERT_TRUE(store.Commit(batch, false).ok());

  store.Crash();

  EXPECT_THAT(ScanAll(store, Table::kMap), ElementsAre(Pair("kept", "1")));
}

TEST(MemMetadataTest, FailsTheNthCommitAndLaterOnesWithoutATrace) {
  MemMetadata store;
  store.FailCommitFrom(2);

  EXPECT_TRUE(PutOne(store, Table::kMap, "a", "1").ok());
  EXPECT_FALSE(PutOne(store, Table::kMap, "b", "1").ok());
  EXPECT_FALSE(PutOne(store, Table::kMap, "c", "1").ok());
  store.FailCommitFrom(0);
  EXPECT_TRUE(PutOne(store, Table::kMap, "d", "1").ok());

  EXPECT_THAT(ScanAll(store, Table::kMap), ElementsAre(Pair("a", "1"), Pair("d", "1")));
  EXPECT_EQ(store.commits(), 4u);
}

}  // namespace
}  // namespace ebb::storage
