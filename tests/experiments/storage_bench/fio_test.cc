#include "experiments/storage_bench/fio.h"

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::storage_bench {
namespace {

using ::testing::HasSubstr;

std::string Side(double ops) {
  return fmt::format(
      R"({{"total_ios": {}, "iops": 500.5, "bw_bytes": 2050048,
          "clat_ns": {{"percentile": {{"50.000000": 1000, "99.000000": 2500}}}}}})",
      ops);
}

std::string Job(const std::string& read, const std::string& write, int error = 0) {
  return fmt::format(R"({{"jobs": [{{"error": {}, "read": {}, "write": {}}}]}})", error, read,
                     write);
}

constexpr const char* kIdle = R"({"total_ios": 0, "iops": 0, "bw_bytes": 0})";

TEST(FioTest, TakesTheSideThatDidSomethingAfterFiosNotes) {
  for (const std::string& text : {Job(Side(100), kIdle), Job(kIdle, Side(100))}) {
    const auto result = ParseFioJson("fio: a note\n" + text);

    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->ops, 100);
    EXPECT_EQ(result->ops_per_s, 500.5);
    EXPECT_EQ(result->bytes_per_s, 2050048);
    EXPECT_EQ(result->p50_us, 1);
    EXPECT_EQ(result->p99_us, 2.5);
  }
}

TEST(FioTest, ARunThatFailedOrDidNothingIsNoResult) {
  EXPECT_THAT(std::string(ParseFioJson(Job(Side(100), kIdle, 5)).status().message()),
              HasSubstr("errno 5"));
  EXPECT_THAT(std::string(ParseFioJson(Job(kIdle, kIdle)).status().message()),
              HasSubstr("did nothing"));
  EXPECT_FALSE(ParseFioJson("no such file").ok());
  EXPECT_FALSE(ParseFioJson(R"({"jobs": []})").ok());
}

}  // namespace
}  // namespace ebb::storage_bench
