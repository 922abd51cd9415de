#include "engine/daemon/daemon_config.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Fault(std::string_view text) {
  DaemonConfig config;
  return std::string(ReadConfigText(text, "ebb.toml", config).message());
}

TEST(DaemonConfigTest, DefaultsHaveNoFault) {
  EXPECT_TRUE(CheckConfig(DaemonConfig()).ok()) << CheckConfig(DaemonConfig());
}

TEST(DaemonConfigTest, ReadsEveryKey) {
  DaemonConfig config;
  const absl::Status status = ReadConfigText(R"(
listen = "unix:/run/ebb/api.sock"
state_dir = "/tmp/state"
attach = ["/run/ebb/a.sock", "/run/ebb/b.sock"]
agent = "random"
goal = "write"
mode = "observe"
on_exit = "restore"
window = "250ms"
holdback = "2.5 %"
log_level = "debug"
keep_windows = "12h"
keep_10s = "1d"
keep_1min = "8d"
keep_10min = "365d"
quiet_hours = ["22:00-06:00", "sat,sun 00:00-24:00"]
maintenance = ["sun 02:00-04:00"]
never_touch = ["flush_group_us"]
trials_per_hour = 7
)",
                                             "ebb.toml", config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.listen, "unix:/run/ebb/api.sock");
  EXPECT_EQ(config.attach.size(), 2U);
  EXPECT_EQ(config.agent, "random");
  EXPECT_EQ(config.goal, "write");
  EXPECT_EQ(config.mode, "observe");
  EXPECT_EQ(config.window_ns, 250 * kNsPerMs);
  EXPECT_EQ(config.holdback_share, 0.025);
  EXPECT_EQ(config.keep.windows_ms, 12 * 3'600'000);
  EXPECT_EQ(config.keep.ten_seconds_ms, kMsPerDay);
  EXPECT_EQ(config.keep.minutes_ms, 8 * kMsPerDay);
  EXPECT_EQ(config.keep.ten_minutes_ms, 365 * kMsPerDay);
  LoopConfig loop;
  ApplyConfig(config, loop);
  EXPECT_EQ(loop.schedule.quiet_hours.size(), 2U);
  EXPECT_EQ(loop.schedule.maintenance.at(0).from_minute, 120);
  EXPECT_EQ(loop.envelope.never_touch, std::vector<std::string>{"flush_group_us"});
  EXPECT_EQ(loop.envelope.trials_per_hour_max, 7U);
  EXPECT_EQ(loop.on_exit, OnExit::kRestore);
  EXPECT_EQ(loop.holdback_share, 0.025);
}

TEST(DaemonConfigTest, HoldbackIsAShareOfTheTime) {
  EXPECT_EQ(*ParseHoldbackShare("0%"), 0);
  EXPECT_EQ(*ParseHoldbackShare("50%"), 0.5);
  for (const char* wrong : {"5", "51%", "-1%", "%", "five%", "nan%"}) {
    EXPECT_FALSE(ParseHoldbackShare(wrong).ok()) << wrong;
  }
  EXPECT_THAT(Fault("holdback = \"60%\""),
              HasSubstr("ebb.toml:1:12: holdback: '60%' must be a share from 0% to 50%"));
  DaemonConfig config;
  EXPECT_THAT(ConfigText(config), Not(HasSubstr("holdback")));  // the engine's own
  config.holdback_share = 0.025;
  EXPECT_THAT(ConfigText(config), HasSubstr("holdback = '2.5%'"));
}

TEST(DaemonConfigTest, ACoarserLevelOfTheSeriesIsNotKeptShorter) {
  DaemonConfig config;
  config.keep.ten_seconds_ms = config.keep.windows_ms - 1;

  EXPECT_EQ(CheckConfig(config).message(), "keep_10s: must be at least as long as keep_windows");
  EXPECT_THAT(Fault("keep_1min = \"5min\""),
              HasSubstr("ebb.toml:1:13: keep_1min: '5min' must be at least 1 h 0 min"));
}

TEST(DaemonConfigTest, WhatItPrintsSaysTheSame) {
  DaemonConfig config;
  config.attach = {"/a \"b\"", "/c"};
  config.goal = "read";
  config.keep.windows_ms = 3 * kMsPerDay / 2;
  config.window_ns = 250 * kNsPerMs;
  config.quiet_hours = {"mon-fri 08:00-18:00"};
  config.never_touch = {"dedup"};
  config.trials_per_hour = 3;

  DaemonConfig again;
  const absl::Status status = ReadConfigText(ConfigText(config), "printed", again);

  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ConfigText(again), ConfigText(config));
  EXPECT_EQ(again.attach, config.attach);
}

TEST(DaemonConfigTest, NamesLineAndColumnOfEveryFault) {
  const std::string fault = Fault(
      "listen = \"0.0.0.0:80\"\n"
      "gaol = \"read\"\n"
      "goal = \"raed\"\n"
      "window = \"1h\"\n"
      "  agent = 3\n"
      "attach = [\"/a\", 4]\n"
      "quiet_hours = [\"22:00-06:00\", \"sutn 1:00-2:00\"]\n"
      "trials_per_hour = 0\n"
      "never_touch = \"dedup\"\n");
  EXPECT_THAT(fault, HasSubstr("ebb.toml:1:10: refusing to listen on '0.0.0.0:80'"));
  EXPECT_THAT(fault, HasSubstr("ebb.toml:2:1: there is no key 'gaol'; did you mean 'goal'?"));
  EXPECT_THAT(fault,
              HasSubstr("ebb.toml:3:8: goal: 'raed' must be one of read, write, balanced, custom; "
                        "did you mean 'read'?"));
  EXPECT_THAT(fault, HasSubstr("ebb.toml:4:10: window: '1h' must be from 100 ms to 1 min 0 s"));
  EXPECT_THAT(fault, HasSubstr("ebb.toml:5:11: agent must be a text in quotes"));
  EXPECT_THAT(fault, HasSubstr("ebb.toml:6:17: each control socket of attach must be a text"));
  EXPECT_THAT(fault, HasSubstr("ebb.toml:7:31: quiet_hours: 'sutn 1:00-2:00' is no span of hours: "
                               "'sutn' is no day, did you mean 'sun'?; write 22:00-06:00"));
  EXPECT_THAT(fault, HasSubstr("ebb.toml:8:19: trials_per_hour: must be a whole number from 1 to"));
  EXPECT_THAT(fault, HasSubstr("ebb.toml:9:15: never_touch must be a list of texts in brackets"));
  EXPECT_EQ(std::count(fault.begin(), fault.end(), '\n'), 8);
}

TEST(DaemonConfigTest, ACustomGoalHasWeightsAndAnyGoalMayHaveLimits) {
  DaemonConfig config;
  const absl::Status status = ReadConfigText(R"(
goal = "custom"
goal_weights = { read_p99 = 0.75, write_p50 = 0.25 }
goal_limits = { read_p99 = "2ms" }
)",
                                             "ebb.toml", config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(GoalText(GoalOf(config)),
            "custom (read_p99 75 %, write_p50 25 %), read p99 at most 2 ms");
  DaemonConfig again;
  ASSERT_TRUE(ReadConfigText(ConfigText(config), "printed", again).ok()) << ConfigText(config);
  EXPECT_EQ(GoalOf(again), GoalOf(config));
}

TEST(DaemonConfigTest, EveryFaultOfAGoalIsNamedAtOnce) {
  const std::string fault = Fault(
      "goal = \"custom\"\n"
      "goal_weights = { raed_p99 = 0.6, write_p50 = 3 }\n"
      "goal_limits = { read_p99 = \"soon\", write_p90 = \"2ms\" }\n");
  EXPECT_THAT(fault, HasSubstr("goal_weights.raed_p99: is unknown; known are read_p50, read_p99"));
  EXPECT_THAT(fault, HasSubstr("did you mean 'read_p99'?"));
  EXPECT_THAT(fault, HasSubstr("goal_weights.write_p50: must be from 0 to 1, not 3"));
  EXPECT_THAT(fault, HasSubstr("goal_limits.read_p99: "));
  EXPECT_THAT(fault, HasSubstr("goal_limits.write_p90: is unknown; known are read_p99, write_p99"));
  EXPECT_THAT(Fault("goal = \"custom\"\n"), HasSubstr("goal_weights: must sum to 1, not 0"));
  EXPECT_THAT(Fault("goal_weights = { read_p99 = 1.0 }\n"),
              HasSubstr("goal_weights: goes with goal = \"custom\" only"));
  EXPECT_THAT(Fault("goal_limits = 2\n"), HasSubstr("goal_limits must be a table such as"));
}

TEST(DaemonConfigTest, BrokenTomlIsOneFault) {
  EXPECT_THAT(Fault("goal = \"read\nmode = 1"), HasSubstr("ebb.toml:1:"));
  EXPECT_THAT(Fault("[goal\n"), HasSubstr("ebb.toml:1:"));
}

TEST(DaemonConfigTest, AMissingFileIsNotFound) {
  DaemonConfig config;
  const absl::Status status = ReadConfigFile("/nonexistent/ebb.toml", config);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/ebb.toml"));
}

}  // namespace
}  // namespace ebb::engine
