#include "storage-backend/control/metrics_text.h"

#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"

namespace ebb::storage {
namespace {

using testing::HasSubstr;
using testing::Not;

VolumeMetrics SomeMetrics() {
  VolumeMetrics metrics;
  metrics.read.ops = 3;
  metrics.read.bytes = 3 * kBlockBytes;
  for (const uint64_t us : {80, 120, 400'000}) metrics.read.latency.Record(us * 1000);
  metrics.dirty_bytes = 5 * kBlockBytes;
  metrics.cache_space_bytes = 100 * kBlockBytes;
  metrics.cache_memory_bytes = 2000;
  metrics.cache_data_bytes = 1000;
  metrics.cache_written_bytes = 1050;
  metrics.destaged_blocks = 10;
  metrics.capacity_written_bytes = 5 * kBlockBytes;
  metrics.logical_bytes = 300;
  metrics.unique_bytes = 200;
  metrics.destage_stuck = true;
  metrics.unreduced_blocks = 17;
  metrics.unreadable_blocks = 2;
  metrics.devices = {
      {.group = 0, .name = "cache", .in_flight = 4, .reads = 5, .writes = 6, .flushes = 7},
      {.group = 1, .name = "capacity0", .errors = 9, .failing = true}};
  return metrics;
}

std::string TextOf(const VolumeMetrics& metrics, std::optional<double> eta_s = std::nullopt) {
  MetricsFrame frame;
  frame.uptime_ns = 2 * kNsPerS;
  frame.in_flight_ns_sum = 3 * kNsPerS;
  return MetricsToText(
      {.name = "a \"b\" \\ c", .uuid = "u", .version = "1", .device_class = "disk"}, frame, metrics,
      Setting(), eta_s);
}

TEST(NodeMetricsTextTest, PromtoolFindsNoFault) {
  if (std::system("command -v promtool >/dev/null") != 0) GTEST_SKIP() << "promtool is absent";
  for (const std::string& text : {TextOf(SomeMetrics(), 12.5), TextOf(VolumeMetrics())}) {
    FILE* promtool = popen("promtool check metrics >&2", "w");
    ASSERT_NE(promtool, nullptr);
    ASSERT_EQ(fwrite(text.data(), 1, text.size(), promtool), text.size());
    EXPECT_EQ(pclose(promtool), 0) << text;
  }
}

TEST(NodeMetricsTextTest, SaysWhatTheMetricsSay) {
  const std::string text = TextOf(SomeMetrics(), 12.5);

  EXPECT_THAT(text, HasSubstr(R"(ebb_node_info{name="a \"b\" \\ c",uuid="u")"));
  EXPECT_THAT(text, HasSubstr("ebb_requests_total{kind=\"read\"} 3\n"));
  EXPECT_THAT(text,
              HasSubstr("ebb_request_duration_seconds_bucket{kind=\"read\",le=\"0.0001\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("ebb_request_duration_seconds_bucket{kind=\"read\",le=\"0.25\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("ebb_request_duration_seconds_bucket{kind=\"read\",le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("quantile=\"0.9999\""));
  EXPECT_THAT(text, HasSubstr("ebb_cache_bytes{state=\"dirty\"} 20480\n"));
  EXPECT_THAT(text, HasSubstr("ebb_cache_memory_per_block_bytes 20\n"));
  EXPECT_THAT(text, HasSubstr("ebb_write_amplification_ratio{tier=\"cache\"} 1.05\n"));
  EXPECT_THAT(text, HasSubstr("ebb_write_amplification_ratio{tier=\"capacity\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("ebb_dedup_ratio 1.5\n"));
  EXPECT_THAT(text, HasSubstr("ebb_request_in_flight_seconds_total 3\n"));
  EXPECT_THAT(text, HasSubstr("ebb_destage_stuck 1\n"));
  EXPECT_THAT(text, HasSubstr("ebb_unreduced_blocks_total 17\n"));
  EXPECT_THAT(text, HasSubstr("ebb_unreadable_blocks 2\n"));
  EXPECT_THAT(text, HasSubstr("ebb_device_transfers_in_flight{group=\"1\",device=\"cache\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("ebb_device_transfers_total{group=\"1\",device=\"cache\",kind="
                              "\"flush\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("ebb_device_transfer_errors_total{group=\"2\",device="
                              "\"capacity0\"} 9\n"));
  EXPECT_THAT(text, HasSubstr("ebb_device_failing{group=\"2\",device=\"capacity0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("ebb_drain_eta_seconds 12.5\n"));
  EXPECT_THAT(TextOf(SomeMetrics()), Not(HasSubstr("ebb_drain_eta_seconds")));
  for (const KnobSpec& spec : KnobTable()) {
    EXPECT_THAT(text, HasSubstr("ebb_knob{knob=\"" + std::string(spec.name) + "\"} "));
  }
}

TEST(NodeMetricsTextTest, EverySeriesIsThereOnce) {
  std::set<std::string> seen;
  std::istringstream text(TextOf(SomeMetrics(), 1));
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("#")) continue;
    EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
}

}  // namespace
}  // namespace ebb::storage
