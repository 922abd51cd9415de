#include <array>
#include <string>

#include <gtest/gtest.h>

#include "base/nearest.h"
#include "base/time_text.h"

namespace ebb {
namespace {

TEST(TimeTextTest, FormatsAndParsesTheSameInstant) {
  EXPECT_EQ(FormatRfc3339(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(FormatRfc3339(1'700'000'000'123), "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(FormatRfc3339(-1), "1969-12-31T23:59:59.999Z");
  for (int64_t ms = -62'167'219'200'000; ms < 253'402'300'800'000; ms += 86'399'999'917) {
    const auto back = ParseTimeMs(FormatRfc3339(ms));
    ASSERT_TRUE(back.ok()) << FormatRfc3339(ms);
    ASSERT_EQ(*back, ms);
  }
}

TEST(TimeTextTest, ReadsZonesFractionsAndUnixMilliseconds) {
  EXPECT_EQ(*ParseTimeMs("2023-11-14T22:13:20Z"), 1'700'000'000'000);
  EXPECT_EQ(*ParseTimeMs("2023-11-15T00:13:20.5+02:00"), 1'700'000'000'500);
  EXPECT_EQ(*ParseTimeMs("2023-11-14t20:13:20.123999-02:00"), 1'700'000'000'123);
  EXPECT_EQ(*ParseTimeMs("1700000000123"), 1'700'000'000'123);
}

TEST(TimeTextTest, RefusesWhatIsNoTime) {
  for (const std::string text :
       {"", "now", "2023-11-14", "2023-02-30T00:00:00Z", "2023-13-01T00:00:00Z",
        "2023-11-14T24:00:00Z", "2023-11-14T22:13:20", "2023-11-14T22:13:20Zx",
        "2023-11-14T22:13:20.Z", "99999999999999999999999", "2023-00-10T00:00:00Z", "12.5"}) {
    EXPECT_FALSE(ParseTimeMs(text).ok()) << text;
  }
}

TEST(TimeTextTest, FormatsAnyNumberWithoutOverflow) {
  EXPECT_EQ(FormatRfc3339(INT64_MAX), "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(FormatRfc3339(INT64_MIN), "0000-01-01T00:00:00.000Z");
}

TEST(NearestWordTest, FindsTypingErrorsAndNothingFarAway) {
  constexpr std::array<std::string_view, 4> kWords = {"read", "write", "balanced", "read_policy"};
  EXPECT_EQ(NearestWord("raed", kWords), "read");
  EXPECT_EQ(NearestWord("Balansed", kWords), "balanced");
  EXPECT_EQ(NearestWord("read_polcy", kWords), "read_policy");
  EXPECT_EQ(NearestWord("rede", kWords), "read");
  EXPECT_EQ(NearestWord("fast", kWords), "");
  EXPECT_EQ(NearestWord("", kWords), "");
  EXPECT_EQ(NearestWord(std::string(100'000, 'r'), kWords), "");
}

}  // namespace
}  // namespace ebb
