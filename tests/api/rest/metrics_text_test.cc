#include "api/rest/metrics_text.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/api/rest/fake_tuner_service.h"

namespace ebb::rest {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string OneNodeText() {
  engine::FakeTunerService service;
  MetricsInput input;
  input.version = "1.2.3";
  input.nodes.emplace_back(*service.Node("alpha"), *service.Knobs("alpha"));
  return MetricsText(input);
}

// Goal: dashboards keep working. Method: the names are a golden file; change it with care.
TEST(MetricsTextTest, NamesAreThoseOfTheGoldenFile) {
  std::ifstream golden(std::string(EBB_SOURCE_DIR) + "/tests/api/rest/metric_names.txt");
  ASSERT_TRUE(golden.is_open());
  std::set<std::string> wanted;
  for (std::string line; std::getline(golden, line);) wanted.insert(line);

  std::set<std::string> given;
  std::istringstream text(OneNodeText());
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("# TYPE ")) given.insert(line.substr(7));
  }

  EXPECT_EQ(given, wanted);
}

TEST(MetricsTextTest, PromtoolFindsNoFault) {
  if (std::system("command -v promtool >/dev/null") != 0) GTEST_SKIP() << "promtool is absent";
  FILE* promtool = popen("promtool check metrics >&2", "w");
  ASSERT_NE(promtool, nullptr);
  const std::string text = OneNodeText();
  ASSERT_EQ(fwrite(text.data(), 1, text.size(), promtool), text.size());
  EXPECT_EQ(pclose(promtool), 0);
}

TEST(MetricsTextTest, ValuesAreInBaseUnits) {
  const std::string text = OneNodeText();
  EXPECT_THAT(text,
              HasSubstr("ebb_performance_index_ratio{node=\"alpha\",goal=\"balanced\"} 1.125"));
  EXPECT_THAT(text, HasSubstr("ebb_io_operations_total{node=\"alpha\",op=\"read\"} 60000"));
  EXPECT_THAT(text, HasSubstr("ebb_io_latency_seconds_count{node=\"alpha\",op=\"read\"} 60000"));
  // 59,000 requests took 90 us and 1,000 took 400 us.
  EXPECT_THAT(
      text,
      HasSubstr("ebb_io_latency_seconds_bucket{node=\"alpha\",op=\"read\",le=\"0.0001\"} 59000"));
  EXPECT_THAT(
      text,
      HasSubstr("ebb_io_latency_seconds_bucket{node=\"alpha\",op=\"read\",le=\"0.0005\"} 60000"));
  EXPECT_THAT(text, HasSubstr("ebb_tuner_changes_total{node=\"alpha\",outcome=\"keep\"} 2"));
  EXPECT_THAT(text, HasSubstr("ebb_knob_value{node=\"alpha\",knob=\"destage_watermark\"} 70"));
  EXPECT_THAT(text, HasSubstr("ebb_tuner_mode{node=\"alpha\",mode=\"auto\"} 1"));
  EXPECT_THAT(text, HasSubstr("ebb_tuner_mode{node=\"alpha\",mode=\"observe\"} 0"));
}

TEST(MetricsTextTest, AnUnmeasuredNodeHasNoInventedNumbers) {
  engine::FakeTunerService service;
  engine::NodeStatus node = *service.Node("alpha");
  node.latest.reset();
  node.index_now.reset();
  MetricsInput input;
  input.nodes.emplace_back(node, std::vector<engine::KnobState>{});
  const std::string text = MetricsText(input);
  EXPECT_THAT(text, Not(HasSubstr("ebb_cache_bytes{")));
  EXPECT_THAT(text, Not(HasSubstr("ebb_performance_index_ratio{")));
}

}  // namespace
}  // namespace ebb::rest
