// The program `ebbd` as an administrator runs it: started, refused, killed, started again, against
// a node whose knobs, leases and events are real and whose numbers are modelled.
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

#include "base/clock.h"
#include "storage-backend/control/json_rpc_client.h"
#include "tests/env/node/fake_node.h"
#include "tests/support/program.h"

namespace ebb::engine {
namespace {

using nlohmann::json;
using testing::BackgroundProgram;
using ::testing::HasSubstr;
using testing::ProgramResult;
using testing::RunProgram;

const std::string kEbbd = std::string(EBB_BINARY_DIR) + "/bin/ebbd";

// A FakeNode whose clock follows the real one and whose watchdog runs.
class LiveFakeNode {
 public:
  explicit LiveFakeNode(const std::string& folder) : node_(folder, clock_) {
    driver_ = std::thread([this] {
      uint64_t last_ns = RealClock().MonotonicNs();
      while (!stop_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        const uint64_t now_ns = RealClock().MonotonicNs();
        clock_.AdvanceNs(now_ns - last_ns);
        last_ns = now_ns;
        node_.Tick();
      }
    });
  }
  ~LiveFakeNode() {
    stop_ = true;
    driver_.join();
  }
  std::string socket() const { return node_.socket_path(); }

 private:
  ManualClock clock_;
  env::FakeNode node_;
  std::atomic<bool> stop_{false};
  std::thread driver_;
};

class EbbdProcessTest : public ::testing::Test {
 protected:
  std::string Folder() const { return scratch_.path(); }
  std::string ApiSocket() const { return Folder() + "/api.sock"; }

  std::unique_ptr<BackgroundProgram> StartEbbd(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {
        "--listen", "unix:" + ApiSocket(), "--state-dir", Folder() + "/state", "--window", "100ms"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto daemon = std::make_unique<BackgroundProgram>(kEbbd, arguments, Folder() + "/ebbd.log");
    EXPECT_TRUE(Eventually([&] { return !daemon->IsRunning() || Get("/readyz").first == 200; }))
        << daemon->Log();
    return daemon;
  }

  // Status and body; status 0 when nothing answers.
  std::pair<int, json> Get(const std::string& target) { return Ask("GET", target, ""); }
  std::pair<int, json> Ask(const std::string& method, const std::string& target,
                           const std::string& body) {
    httplib::Client client(ApiSocket(), 80);
    client.set_address_family(AF_UNIX);
    httplib::Request request;
    request.method = method;
    request.path = target;
    if (!body.empty()) {
      request.body = body;
      request.set_header("Content-Type", "application/json");
    }
    const auto answer = client.send(request);
    if (!answer) return {0, {}};
    return {answer->status, json::parse(answer->body, nullptr, false)};
  }

  static bool Eventually(const std::function<bool()>& holds, int seconds = 60) {
    const uint64_t end_ns =
        RealClock().MonotonicNs() + static_cast<uint64_t>(seconds) * 1'000'000'000;
    while (RealClock().MonotonicNs() < end_ns) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return holds();
  }

  testing::ScratchFolder scratch_;
};

TEST_F(EbbdProcessTest, StopsCleanlyOnSigterm) {
  auto daemon = StartEbbd();
  EXPECT_EQ(Get("/api/v1/nodes").second["nodes"].size(), 0U);
  daemon->Signal(SIGTERM);
  EXPECT_EQ(daemon->Wait(), 0) << daemon->Log();
  EXPECT_THAT(daemon->Log(), HasSubstr("stopped"));
  EXPECT_FALSE(std::ifstream(ApiSocket()).good());
}

TEST_F(EbbdProcessTest, ASecondOneIsRefusedWithOneSentence) {
  auto daemon = StartEbbd();
  const ProgramResult same_state =
      RunProgram(kEbbd, {"--listen", "127.0.0.1:0", "--state-dir", Folder() + "/state"});
  EXPECT_EQ(same_state.exit_code, 4);
  EXPECT_THAT(same_state.err,
              HasSubstr("in use by the daemon with process id " + std::to_string(daemon->pid())));
  const ProgramResult same_address =
      RunProgram(kEbbd, {"--listen", "unix:" + ApiSocket(), "--state-dir", Folder() + "/other"});
  EXPECT_EQ(same_address.exit_code, 4);
  EXPECT_THAT(same_address.err, HasSubstr("another process serves there"));
  EXPECT_EQ(Get("/livez").first, 200);  // undisturbed
}

TEST_F(EbbdProcessTest, WrongConfigurationIsNamedAndNothingStarts) {
  const std::string file = Folder() + "/ebb.toml";
  std::ofstream(file) << "listen = \"127.0.0.1:0\"\ngaol = \"read\"\n";
  const ProgramResult bad = RunProgram(kEbbd, {"--config", file});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_EQ(bad.err, "ebbd: " + file + ":2:1: there is no key 'gaol'; did you mean 'goal'?\n");
  EXPECT_EQ(RunProgram(kEbbd, {"--goal", "fast"}).exit_code, 2);
  EXPECT_EQ(RunProgram(kEbbd, {"--bogus"}).exit_code, 2);
  EXPECT_THAT(RunProgram(kEbbd, {"--listen", "0.0.0.0:80"}).err,
              HasSubstr("neither TLS nor tokens"));
  const ProgramResult good = RunProgram(kEbbd, {"--check-config", "--goal", "read"});
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_THAT(good.out, HasSubstr("goal = 'read'"));
}

TEST_F(EbbdProcessTest, AttachesANodeThatComesLaterAndRemembersIt) {
  auto daemon = StartEbbd({"--attach", Folder() + "/control.sock", "--mode", "observe"});
  EXPECT_EQ(Get("/api/v1/nodes").second["nodes"].size(), 0U);
  EXPECT_THAT(daemon->Log(), HasSubstr("trying again"));
  LiveFakeNode node(Folder());
  ASSERT_TRUE(Eventually([&] { return Get("/api/v1/nodes").second["nodes"].size() == 1; }))
      << daemon->Log();
  const std::string id = Get("/api/v1/nodes").second["nodes"][0]["id"];
  ASSERT_EQ(Ask("PUT", "/api/v1/nodes/" + id + "/goal", R"({"goal":"write"})").first, 200);

  daemon->Signal(SIGKILL);
  daemon->Wait();
  daemon = StartEbbd({"--attach", node.socket(), "--goal", "read"});

  const json again = Get("/api/v1/nodes/" + id).second;
  EXPECT_EQ(again["goal"], "write") << again;
  EXPECT_EQ(again["tuner"]["mode"], "observe");
}

// Goal: a sidecar that dies in the middle of a trial leaves the node on its incumbent within the
// lease, and the next one says what happened. Method: kill -9 when a change is pending.
TEST_F(EbbdProcessTest, KilledInMidTrialTheNodeReturnsAndTheHistorySaysSo) {
  LiveFakeNode node(Folder());
  auto daemon = StartEbbd({"--attach", node.socket()});
  const auto pending = [&] { return Get("/api/v1/changes?outcome=pending").second["changes"]; };
  storage::JsonRpcClient client(node.socket());
  const auto knobs = [&] { return json::parse(*client.Call("knobs.get")); };
  ASSERT_TRUE(Eventually([&] { return !pending().empty() && !knobs()["lease"].is_null(); }))
      << daemon->Log() << Get("/api/v1/nodes").second["nodes"][0]["tuner"];
  const json open_lease = knobs()["lease"];
  const std::string change = pending()[0]["id"];

  daemon->Signal(SIGKILL);
  daemon->Wait();

  const int lease_s = open_lease["expires_in_ms"].get<int>() / 1000 + 1;
  ASSERT_TRUE(Eventually([&] { return knobs()["lease"].is_null(); }, lease_s)) << knobs();
  EXPECT_EQ(knobs()["setting"], knobs()["incumbent"]);
  daemon = StartEbbd();
  const auto outcome = [&] { return Get("/api/v1/changes/" + change).second; };
  ASSERT_TRUE(Eventually([&] { return outcome().value("outcome", "pending") != "pending"; }))
      << outcome();
  EXPECT_NE(outcome()["outcome"], "keep");
  EXPECT_NE(outcome()["outcome_reason"], "");
}

}  // namespace
}  // namespace ebb::engine
