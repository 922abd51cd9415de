#include "storage-backend/policy/read_admission.h"

#include <gtest/gtest.h>

#include "storage-backend/policy/ghost_table.h"

namespace ebb::storage {
namespace {

TEST(ReadAdmissionPolicyTest, AlwaysAdmitsWhenAskedTo) {
  ReadAdmissionPolicy admission;
  admission.Resize(16);

  EXPECT_TRUE(admission.Admit(1, /*second_hit_only=*/false));
}

TEST(ReadAdmissionPolicyTest, SecondHitAdmitsTheSecondMissOnly) {
  ReadAdmissionPolicy admission;
  admission.Resize(16);

  EXPECT_FALSE(admission.Admit(1, true));
  EXPECT_TRUE(admission.Admit(1, true));
  EXPECT_FALSE(admission.Admit(1, true));  // its memory was used up
}

TEST(ReadAdmissionPolicyTest, ForgetsAfterAsManyMissesAsSlots) {
  ReadAdmissionPolicy admission;
  admission.Resize(100);
  EXPECT_FALSE(admission.Admit(1, true));

  for (uint64_t key = 1000; key < 1100; ++key) admission.Admit(key, true);

  EXPECT_FALSE(admission.Admit(1, true));
}

TEST(GhostTableTest, RemembersNearlyAllOfItsCapacity) {
  GhostTable table;
  table.Reset(1000);
  for (uint64_t key = 0; key < 1000; ++key) table.Add(key);

  int remembered = 0;
  for (uint64_t key = 0; key < 1000; ++key) remembered += table.Contains(key) ? 1 : 0;
  int mistaken = 0;
  for (uint64_t key = 5000; key < 15'000; ++key) mistaken += table.Contains(key) ? 1 : 0;

  EXPECT_GT(remembered, 900);
  EXPECT_EQ(mistaken, 0);
}

TEST(GhostTableTest, OfNoCapacityRemembersNothing) {
  GhostTable table;
  table.Reset(0);
  table.Add(1);

  EXPECT_FALSE(table.Contains(1));
  EXPECT_FALSE(table.Take(1));
}

}  // namespace
}  // namespace ebb::storage
