// The program `ebb` run as a user runs it, against a real server over a fake tuner.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/rest/http_server.h"
#include "api/rest/rest_api.h"
#include "api/rest/words.h"
#include "base/clock.h"
#include "tests/api/rest/fake_tuner_service.h"
#include "tests/support/program.h"

namespace ebb::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Outcome = testing::ProgramResult;

Outcome RunEbb(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
  return testing::RunProgram(std::string(EBB_BINARY_DIR) + "/bin/ebb", std::move(arguments),
                             std::move(environment));
}

class CliTest : public ::testing::Test {
 protected:
  explicit CliTest(uint64_t changes = 5)
      : service_(changes), api_(service_, RealClock(), {"9.8.7", nullptr}) {
    rest::HttpServerOptions options;
    options.address.host = "127.0.0.1";
    auto started = rest::HttpServer::Start(options, api_);
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = std::move(*started);
  }
  Outcome Ebb(std::vector<std::string> arguments) {
    return RunEbb(std::move(arguments), {"EBB_URL=" + server_->address().Url()});
  }
  // One sentence, one line, no stack trace.
  static void ExpectSentence(const Outcome& outcome, int exit_code, const std::string& part) {
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("ebb: "));
    EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }

  engine::FakeTunerService service_;
  rest::RestApi api_;
  std::unique_ptr<rest::HttpServer> server_;
};

class LongHistoryCliTest : public CliTest {
 protected:
  LongHistoryCliTest() : CliTest(1'234) {}
};

TEST_F(CliTest, StatusFitsInTwelveLines) {
  const Outcome outcome = Ebb({"status"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_LE(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 12);
  EXPECT_THAT(outcome.out, HasSubstr("alpha  well"));
  EXPECT_THAT(outcome.out, HasSubstr("112.5, last minute 110.0"));
  EXPECT_THAT(outcome.out, HasSubstr("#5 destage_watermark 50 % -> 70 %"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
  EXPECT_EQ(json::parse(Ebb({"status", "--json"}).out)[0]["id"], "alpha");
}

TEST_F(CliTest, ChangesAsJsonAreTheInterfacesArray) {
  const Outcome outcome = Ebb({"changes", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const rest::Response answer = api_.Handle({"GET", "/api/v1/changes", "", "", ""});
  EXPECT_EQ(json::parse(outcome.out), json::parse(answer.body)["changes"]);
}

TEST_F(LongHistoryCliTest, ChangesFollowTheCursorUpToTheLimit) {
  const json all = json::parse(Ebb({"changes", "--json", "--limit", "5000"}).out);
  ASSERT_EQ(all.size(), 1'234U);
  EXPECT_EQ(all.front()["id"], "1234");
  EXPECT_EQ(all.back()["id"], "1");
  const Outcome some = Ebb({"changes", "--json", "--limit", "700"});
  EXPECT_EQ(json::parse(some.out).size(), 700U);
  EXPECT_THAT(some.err, HasSubstr("older changes were left out"));
}

TEST_F(CliTest, ChangesAreFilteredAsTableAndCsv) {
  const Outcome table = Ebb({"changes", "alpha", "--knob", "compression"});
  EXPECT_EQ(std::count(table.out.begin(), table.out.end(), '\n'), 3) << table.out;
  EXPECT_THAT(table.out, HasSubstr("compression off -> lz4"));
  const Outcome csv = Ebb({"changes", "--csv", "--outcome", "keep"});
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 2) << csv.out;
  // The reason holds quotes and a comma.
  EXPECT_THAT(csv.out,
              HasSubstr("\"write p99 rises while the \"\"log\"\" fills, more room may help\""));
  EXPECT_THAT(Ebb({"changes", "--from", "1h"}).err, HasSubstr("no change matches"));
}

TEST_F(CliTest, ShowTellsOneChangesLife) {
  const Outcome outcome = Ebb({"show", "5"});
  EXPECT_THAT(outcome.out, HasSubstr("measured    +8.0 % (+3.0 to +13.0)"));
  EXPECT_THAT(outcome.out, HasSubstr("lease of 30 s"));
  ExpectSentence(Ebb({"show", "77"}), 1, "there is no change 77");
}

TEST_F(CliTest, GoalIsShownAndSetInEveryForm) {
  EXPECT_EQ(Ebb({"goal"}).out, "balanced\n");
  EXPECT_EQ(Ebb({"goal", "read"}).out, "read\n");
  EXPECT_EQ(Ebb({"goal", "set", "alpha", "write"}).out, "write\n");
  EXPECT_EQ(Ebb({"goal", "alpha"}).out, "write\n");
  EXPECT_EQ(Ebb({"goal", "get", "alpha"}).out, "write\n");
  EXPECT_EQ(Ebb({"mode", "observe"}).out, "observe\n");
  EXPECT_EQ(Ebb({"on_exit"}).out, "keep\n");
  EXPECT_EQ(Ebb({"on_exit", "alpha", "restore"}).out, "restore\n");
  ExpectSentence(Ebb({"goal", "raed"}), 2, "did you mean 'read'?");
  ExpectSentence(Ebb({"goal", "set", "alpha", "fast"}), 2, "must be one of read, write, balanced");
  ExpectSentence(Ebb({"goal", "alpah", "read"}), 1, "did you mean 'alpha'?");
  ExpectSentence(Ebb({"goal", "set"}), 2, "write 'ebb goal'");
}

TEST_F(CliTest, AGoalTakesWeightsAndLimits) {
  EXPECT_EQ(Ebb({"goal", "--limit", "read_p99=2ms"}).out, "balanced, read p99 at most 2 ms\n");
  EXPECT_EQ(Ebb({"goal", "read"}).out, "read, read p99 at most 2 ms\n");
  EXPECT_EQ(Ebb({"goal", "custom", "--weight", "read_p99=0.75", "--weight", "write_p50=0.25"}).out,
            "custom (read_p99 75 %, write_p50 25 %), read p99 at most 2 ms\n");
  EXPECT_EQ(Ebb({"goal", "alpha", "--no-limits"}).out, "custom (read_p99 75 %, write_p50 25 %)\n");
  EXPECT_THAT(Ebb({"status"}).out, HasSubstr("custom (read_p99 75 %"));
  ExpectSentence(Ebb({"goal", "--weight", "read_p99", "--weight", "write_p50=x"}), 2,
                 "'read_p99' must be NAME=VALUE; --weight write_p50=x: 'x' is no number");
  ExpectSentence(Ebb({"goal", "--weight", "read_p99=0.5"}), 1, "must sum to 1, not 0.5");
  ExpectSentence(Ebb({"goal", "read", "--weight", "read_p99=1"}), 2, "makes a custom goal");
  ExpectSentence(Ebb({"goal", "--limit", "read_p99=soon"}), 2, "--limit read_p99=soon");
}

TEST_F(CliTest, EveryWordOfTheEngineIsAccepted) {
  for (const std::string_view goal : rest::GoalWords()) {
    EXPECT_EQ(Ebb({"goal", std::string(goal)}).exit_code, 0) << goal;
  }
  for (const std::string_view mode : rest::ModeWords()) {
    EXPECT_EQ(Ebb({"mode", std::string(mode)}).exit_code, 0) << mode;
  }
  for (const std::string_view outcome : rest::OutcomeWords()) {
    EXPECT_EQ(Ebb({"changes", "--outcome", std::string(outcome)}).exit_code, 0) << outcome;
  }
}

TEST_F(CliTest, AttachesDetachesAndAsksForANameAmongSeveral) {
  const Outcome attached = Ebb({"attach", "control.sock", "--goal", "write"});
  EXPECT_EQ(attached.out, "beta\n") << attached.err;
  EXPECT_TRUE(service_.Node("beta")->control_socket.starts_with("/"));  // made absolute
  ExpectSentence(Ebb({"restore"}), 2, "several nodes are attached, so name one: alpha, beta");
  EXPECT_THAT(Ebb({"status"}).out, HasSubstr("NODE"));
  EXPECT_EQ(Ebb({"detach", "beta", "--restore"}).exit_code, 0);
  EXPECT_EQ(service_.last_call, "detach and restore");
  EXPECT_EQ(Ebb({"detach"}).exit_code, 0);
  ExpectSentence(Ebb({"knobs"}), 1, "attach one with 'ebb attach SOCKET'");
  ExpectSentence(Ebb({"attach", "/nothing"}), 1, "control_socket: no node answers on /nothing");
}

TEST_F(CliTest, PausesResumesRestores) {
  const Outcome paused = Ebb({"pause", "--for", "1h", "--reason", "backup"});
  EXPECT_EQ(paused.exit_code, 0) << paused.err;
  EXPECT_THAT(paused.err, HasSubstr("alpha paused until 20"));
  const auto node = *service_.Node("alpha");
  EXPECT_EQ(node.pause_reason, "backup");
  EXPECT_NEAR(static_cast<double>(*node.paused_until_ms),
              static_cast<double>(RealClock().WallMs() + 3'600'000), 600'000);
  EXPECT_THAT(Ebb({"status"}).out, HasSubstr("PAUSED until"));
  EXPECT_EQ(Ebb({"resume"}).exit_code, 0);
  EXPECT_EQ(Ebb({"restore"}).exit_code, 0);
  EXPECT_EQ(service_.last_call, "restore");
  ExpectSentence(Ebb({"pause", "--for", "soon"}), 2, "--for");
}

TEST_F(CliTest, RecommendationsAreListedApprovedAndRejected) {
  const Outcome listed = Ebb({"recommendations"});
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_THAT(listed.out, HasSubstr("r0123456789"));
  EXPECT_THAT(listed.out, HasSubstr("destage_watermark 50 % -> 70 %, compression lz4 -> off"));
  EXPECT_THAT(listed.out, HasSubstr("5 % to 90 %, off to lz4"));
  EXPECT_THAT(listed.out, HasSubstr("+10.0 % (+2.0 to +18.0)"));
  const Outcome approved = Ebb({"recommendations", "approve", "r0123456789"});
  EXPECT_EQ(approved.exit_code, 0) << approved.err;
  EXPECT_EQ(service_.last_call, "approve");
  EXPECT_THAT(approved.err, HasSubstr("ebb show 5"));
  EXPECT_EQ(Ebb({"recommendations", "reject", "r0123456789", "--reason", "no memory"}).exit_code,
            0);
  EXPECT_EQ(service_.last_call, "reject");
  EXPECT_THAT(Ebb({"recommendations", "alpha", "--state", "rejected"}).out, HasSubstr("no memory"));
  EXPECT_THAT(Ebb({"recommendations", "--state", "waiting"}).err, HasSubstr("nothing"));
  EXPECT_EQ(json::parse(Ebb({"recommendations", "--json"}).out)[0]["id"], "r0123456789");
  ExpectSentence(Ebb({"recommendations", "approve", "r0123456780"}), 1,
                 "did you mean 'r0123456789'?");
  ExpectSentence(Ebb({"recommendations", "approve"}), 2, "id");
  service_.refusal = absl::FailedPreconditionError("nothing is applied in this mode");
  ExpectSentence(Ebb({"recommendations", "approve", "r0123456789"}), 4, "nothing is applied");
}

TEST_F(CliTest, RefusalsExitWithFour) {
  service_.refusal = absl::FailedPreconditionError("the node is draining; wait until it is clean");
  ExpectSentence(Ebb({"restore"}), 4, "the node is draining; wait until it is clean");
}

TEST_F(CliTest, KnobsArePinned) {
  EXPECT_THAT(Ebb({"knobs"}).out, HasSubstr("destage_watermark  70 %"));
  EXPECT_THAT(Ebb({"knobs", "--changed"}).out, Not(HasSubstr("compression")));
  EXPECT_THAT(Ebb({"pin", "compression"}).err, HasSubstr("compression on alpha stays at lz4"));
  EXPECT_THAT(Ebb({"knobs"}).out, HasSubstr("pinned"));
  EXPECT_EQ(Ebb({"unpin", "compression", "alpha"}).exit_code, 0);
  ExpectSentence(Ebb({"pin", "compresion"}), 1, "did you mean 'compression'?");
}

TEST_F(CliTest, SeriesIsATableOrCsv) {
  const Outcome csv = Ebb({"series", "--from", "1700000000000", "--to", "1700000005000", "--csv"});
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 6) << csv.out << csv.err;
  EXPECT_THAT(csv.out, StartsWith("time,index,read_p50_us"));
  EXPECT_THAT(csv.out, HasSubstr("2023-11-14T22:13:23.000Z,,"));  // no value: empty, not 0
  const Outcome rolled = Ebb(
      {"series", "--from", "1700000000000", "--to", "1700000060000", "--max-points", "1", "--csv"});
  EXPECT_THAT(rolled.out, HasSubstr(",windows,index_min,"));
  EXPECT_THAT(rolled.out, HasSubstr(",60,100.0,"));
  ExpectSentence(Ebb({"series", "--from", "yesterday"}), 2, "--from: 'yesterday' is not a time");
}

TEST_F(CliTest, WrongArgumentsExitWithTwoAndOneSentence) {
  ExpectSentence(Ebb({"chnages"}), 2, "did you mean 'changes'?");
  ExpectSentence(Ebb({"changes", "--outcome", "good"}), 2, "--outcome");
  ExpectSentence(Ebb({"changes", "--limit", "0"}), 2, "--limit");
  ExpectSentence(Ebb({"attach"}), 2, "socket");
  ExpectSentence(Ebb({"status", "--bogus"}), 2, "--bogus");
  ExpectSentence(Ebb({"-o", "xml", "status"}), 2, "xml");
  ExpectSentence(RunEbb({"--url", "ftp://x", "status"}), 2, "is no address of a daemon");
}

TEST_F(CliTest, HelpTeachesOnStdout) {
  const Outcome outcome = Ebb({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("First steps:"));
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(Ebb({"changes", "--help"}).out, HasSubstr("Examples:"));
  EXPECT_THAT(Ebb({"--version"}).out, StartsWith("ebb "));
  EXPECT_THAT(Ebb({}).out, HasSubstr("First steps:"));
}

TEST(CliWithoutDaemonTest, SaysSoAndExitsWithThree) {
  for (const std::string url : {"http://127.0.0.1:9", "unix:/nonexistent/api.sock"}) {
    const Outcome outcome = RunEbb({"status", "--url", url});
    EXPECT_EQ(outcome.exit_code, 3);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("ebb: no daemon answers at " + url));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  }
}

}  // namespace
}  // namespace ebb::cli
