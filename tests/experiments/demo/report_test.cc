#include "experiments/demo/report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::demo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

env::WindowMetrics Reads(uint64_t ops, uint64_t ns) {
  env::WindowMetrics window;
  window.seconds = 2;
  window.read.ops = ops;
  window.read.latency.Record(ns, ops);
  return MergeWindows(std::vector<env::WindowMetrics>{window});
}

PhaseResult Result(std::vector<double> log_indexes) {
  return {.id = "read",
          .title = "random reads",
          .by_default = Reads(1000, 8'000'000),
          .tuned = Reads(2000, 4'000'000),
          .comparison = Compare(log_indexes)};
}

TEST(ReportTest, ShowsBothSettingsAndTheInterval) {
  const std::string table = ResultTable({Result({0.1, 0.11, 0.09})});

  EXPECT_THAT(table, HasSubstr("default       500"));
  EXPECT_THAT(table, HasSubstr("tuned        1000"));
  EXPECT_THAT(table, HasSubstr("110.5 ("));
  EXPECT_THAT(table, Not(HasSubstr("no claim")));
  EXPECT_THAT(table, HasSubstr("random reads; 3 pairs"));
}

TEST(ReportTest, ClaimsNothingWhereZeroIsInside) {
  EXPECT_THAT(ResultTable({Result({0.1, -0.11, 0.09})}),
              HasSubstr("no claim: the interval includes zero"));
}

TEST(ReportTest, SaysSoWhenTunedIsTheDefaultAndWhenPairsWereLeftOut) {
  PhaseResult result = Result({});
  result.tuned = {};
  result.dropped_pairs = 2;

  const std::string table = ResultTable({result});

  EXPECT_THAT(table, HasSubstr("no claim: tuned is the default"));
  EXPECT_THAT(table, HasSubstr("2 pairs of blocks left out"));
}

TEST(ReportTest, ListsEveryChangeWithReasonAndVerdict) {
  const std::string text = ChangeList({{.id = "7",
                                        .knobs = "alpha 1 -> 2",
                                        .actor = "agent:static",
                                        .reason = "because",
                                        .outcome = "keep",
                                        .outcome_reason = "it helped",
                                        .effect = "+5.0 % (+1.0 to +9.0)"}});

  for (const char* part :
       {"#7 keep", "alpha 1 -> 2", "agent:static", "because", "it helped", "+5.0 %"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(ChangeList({}), "no change was tried\n");
}

TEST(SidecarTest, ReadsTheStatusOfANode) {
  const std::string json = R"([{"id": "demo", "health": "ok", "goal": "read",
    "tuner": {"state": "screening", "why": "measuring"}, "index": {"now": 101.5,
    "minute_mean": null}, "windows": 40, "void_windows": 2, "last_change": {"id": "3",
    "knobs": [{"knob": "alpha", "from_text": "1", "to_text": "2"}], "outcome": "pending"}}])";

  const absl::StatusOr<SidecarView> view = ParseView(json);

  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->state, "screening");
  EXPECT_EQ(view->index_now, 101.5);
  EXPECT_EQ(view->windows, 40u);
  EXPECT_EQ(view->last_change, "#3 alpha 1 -> 2: pending");
  EXPECT_FALSE(ParseView("[]").ok());
  EXPECT_FALSE(ParseView("oops").ok());
}

TEST(SidecarTest, ReadsChangesOldestFirst) {
  const std::string json = R"([
    {"id": "2", "knobs": [], "actor": "a", "reason": "r", "outcome": "revert",
     "outcome_reason": "worse", "measured": {"mean": -0.2, "low": -0.3, "high": -0.1}},
    {"id": "1", "knobs": [], "actor": "a", "reason": "r", "outcome": "void",
     "outcome_reason": "shift", "measured": null}])";

  const absl::StatusOr<std::vector<ChangeLine>> changes = ParseChanges(json);

  ASSERT_TRUE(changes.ok()) << changes.status();
  ASSERT_EQ(changes->size(), 2u);
  EXPECT_EQ((*changes)[0].id, "1");
  EXPECT_EQ((*changes)[0].effect, "-");
  EXPECT_EQ((*changes)[1].effect, "-20.0 % (-30.0 to -10.0)");
}

TEST(SidecarTest, FindsAFreePort) {
  const absl::StatusOr<uint16_t> port = FreePort();

  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_GT(*port, 1023);
}

}  // namespace
}  // namespace ebb::demo
