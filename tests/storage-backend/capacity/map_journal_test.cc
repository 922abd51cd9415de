#include "storage-backend/capacity/map_journal.h"

#include <vector>

#include <gtest/gtest.h>

#include "storage-backend/metadata/mem_metadata.h"

namespace ebb::storage {
namespace {

void PutRecord(MemMetadata& metadata, uint64_t sequence) {
  const std::vector<MapChange> changes = {{sequence, MapEntry::Direct(0, 65536, 1)}};
  MetadataBatch batch;
  batch.Put(Table::kJournal, JournalKey(sequence), EncodeJournal(sequence, changes, {}));
  ASSERT_TRUE(metadata.Commit(batch, true).ok());
}

TEST(MapJournalTest, ReplaysWhatIsNeededInOrder) {
  MemMetadata metadata;
  for (uint64_t sequence = 4; sequence <= 9; ++sequence) PutRecord(metadata, sequence);
  MapJournal journal(6, 9);
  std::vector<uint64_t> seen;

  ASSERT_TRUE(journal
                  .Replay(metadata,
                          [&](uint64_t sequence, const JournalRecord& record) {
                            EXPECT_EQ(record.blocks.front().block, sequence);
                            seen.push_back(sequence);
                            return absl::OkStatus();
                          })
                  .ok());

  EXPECT_EQ(seen, (std::vector<uint64_t>{6, 7, 8}));
  EXPECT_EQ(journal.next(), 9u);
}

TEST(MapJournalTest, AMissingRecordIsDataLoss) {
  MemMetadata metadata;
  PutRecord(metadata, 1);
  PutRecord(metadata, 3);
  MapJournal journal(1, 4);

  const absl::Status status =
      journal.Replay(metadata, [](uint64_t, const JournalRecord&) { return absl::OkStatus(); });

  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("commit 2 is missing"), std::string::npos) << status;
}

TEST(MapJournalTest, AsksForWriteBackWhenItGrowsTooLong) {
  MapJournal journal(1, 1);
  journal.Committed(1, 100);
  journal.Committed(1, 200);
  journal.Committed(1, 300);

  EXPECT_EQ(journal.WriteBackBelow(50, 1000), 1u);
  EXPECT_EQ(journal.WriteBackBelow(50, 600), 2u);
  EXPECT_EQ(journal.WriteBackBelow(50, 550), 2u);
  EXPECT_EQ(journal.WriteBackBelow(50, 549), 3u);
  EXPECT_EQ(journal.WriteBackBelow(50, 10), 4u);  // all but the one to come
  MetadataBatch batch;
  journal.DeleteBelow(3, batch);
  EXPECT_EQ(batch.changes().size(), 2u);
  journal.Committed(3, 50);
  EXPECT_EQ(journal.WriteBackBelow(50, 400), 3u);
  EXPECT_EQ(journal.WriteBackBelow(51, 400), 4u);
}

}  // namespace
}  // namespace ebb::storage
