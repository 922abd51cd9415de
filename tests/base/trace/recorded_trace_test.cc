// The trace that the repository carries is whole and is what tests/data/README.md says.
#include <filesystem>
#include <string>

#include "base/trace/trace_reader.h"
#include "base/trace/trace_summary.h"
#include "base/units.h"
#include "gtest/gtest.h"

namespace ebb::trace {
namespace {

TEST(RecordedTraceTest, SqliteOnExt4IsWholeAndOfTheRightSize) {
  const std::string path = std::string(EBB_SOURCE_DIR) + "/tests/data/sqlite_ext4.ebbt";
  auto reader = TraceReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();

  const auto summary = Summarize(**reader);

  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_LE(std::filesystem::file_size(path), 2'000'000U);
  EXPECT_GE(summary->span_ns, 30 * kNsPerS);
  EXPECT_LE(summary->span_ns, 90 * kNsPerS);
  EXPECT_EQ(summary->needed_bytes, 512 * kMiB);
  EXPECT_NEAR(summary->ReadShare(), 0.67, 0.05);
  EXPECT_GT(summary->flushes, 5000U);
  EXPECT_GT(summary->trims, 10U);
  EXPECT_NEAR(
      static_cast<double>(summary->duplicate_blocks) / static_cast<double>(summary->written_blocks),
      0.20, 0.03);
}

}  // namespace
}  // namespace ebb::trace
