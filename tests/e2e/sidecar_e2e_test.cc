// Issue 2, bars 4 and 5: kill -9 of the sidecar in the middle of a trial on a live node, and the
// same history from curl and from the command line.
#include <csignal>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/live_node.h"

namespace ebb {
namespace {

using nlohmann::json;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::LiveNode;

class SidecarE2eTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(node_.fault(), "");
    const auto filled = node_.RunFio({"--rw=write", "--bs=1M", "--size=64M", "--end_fsync=1"});
    ASSERT_EQ(filled.exit_code, 0) << filled.out << filled.err;
    node_.StartFio({"--rw=randrw", "--rwmixread=65", "--bs=4k", "--iodepth=4", "--size=64M",
                    "--time_based", "--runtime=3600"});
  }

  bool IsOnTrial() const {
    return !node_.Get("/api/v1/changes?outcome=pending")["changes"].empty() &&
           !node_.Control("knobs.get")["lease"].is_null();
  }

  LiveNode node_;
};

TEST_F(SidecarE2eTest, KilledInMidTrialTheNodeReturnsAndTheHistorySaysSo) {
  node_.StartDaemon("ebbd", {"--attach", node_.control_socket(), "--window", "250ms"});
  ASSERT_TRUE(Eventually([&] { return IsOnTrial(); }, 120)) << node_.Diagnosis();
  const json trial = node_.Control("knobs.get");
  const json pending = node_.Get("/api/v1/changes?outcome=pending")["changes"][0];
  EXPECT_NE(trial["setting"], trial["incumbent"]);

  node_.daemon().Signal(SIGKILL);
  node_.daemon().Wait();

  // A second on top of the lease: the node looks every 100 ms, this test every 50.
  const int lease_s = trial["lease"]["expires_in_ms"].get<int>() / 1000 + 2;
  ASSERT_TRUE(Eventually([&] { return node_.Control("knobs.get")["lease"].is_null(); }, lease_s));
  EXPECT_EQ(node_.Control("knobs.get")["setting"], trial["incumbent"]);

  node_.StartDaemon("ebbd", {"--window", "250ms"});
  const std::string target = "/api/v1/changes/" + pending["id"].get<std::string>();
  ASSERT_TRUE(
      Eventually([&] { return node_.Get(target).value("outcome", "pending") != "pending"; }, 60))
      << node_.Diagnosis();
  const json change = node_.Get(target);
  EXPECT_NE(change["outcome"], "keep") << change.dump(2);
  EXPECT_NE(change["outcome_reason"], "") << change.dump(2);
  EXPECT_THAT(node_.Ebb({"show", pending["id"]}).out,
              HasSubstr(change["outcome_reason"].get<std::string>()));
}

TEST_F(SidecarE2eTest, CurlAndTheCommandLineTellTheSameHistory) {
  node_.StartDaemon("ebbd", {"--attach", node_.control_socket(), "--window", "250ms"});
  ASSERT_TRUE(Eventually(
      [&] { return node_.Get("/api/v1/changes?actor=agent")["changes"].size() >= 2; }, 180))
      << node_.Diagnosis();
  EXPECT_EQ(node_.Ebb({"pause", "--reason", "end of the test"}).exit_code, 0);
  // Paused, so the history stands still once the open trial has ended.
  ASSERT_TRUE(Eventually(
      [&] { return node_.Get("/api/v1/changes?outcome=pending")["changes"].empty(); }, 60));

  const json by_curl = node_.Get("/api/v1/changes");
  const auto by_ebb = node_.Ebb({"changes", "--json"});

  ASSERT_EQ(by_ebb.exit_code, 0) << by_ebb.err;
  EXPECT_GE(by_curl["changes"].size(), 2U);
  EXPECT_EQ(json::parse(by_ebb.out), by_curl["changes"]);
  EXPECT_THAT(node_.Ebb({"status"}).out, HasSubstr("PAUSED: end of the test"));
  EXPECT_THAT(node_.Curl("/metrics"),
              HasSubstr("ebb_io_operations_total{node=\"live\",op=\"read\"}"));
}

}  // namespace
}  // namespace ebb
