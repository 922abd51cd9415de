// Every route over real HTTP: what it answers, and what it says to input that is wrong.
#include <map>
#include <string>

#include <pwd.h>
#include <unistd.h>

#include "tests/api/rest/rest_fixture.h"

namespace ebb::rest {
namespace {

using engine::FakeTunerService;
using nlohmann::json;
using RoutesTest = RestFixture;

TEST_F(RoutesTest, RootListsEveryRoute) {
  const Answer answer = Get("/api/v1");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.json["version"], "9.8.7");
  EXPECT_EQ(answer.json["routes"].size(), RestApi::Routes().size());
  EXPECT_EQ(Get("/api/v1/version").json["api_versions"], json::array({"v1"}));
}

TEST_F(RoutesTest, NodesTellStateGoalIndexAndLastWindow) {
  const Answer answer = Get("/api/v1/nodes");
  ASSERT_EQ(answer.status, 200);
  ASSERT_EQ(answer.json["nodes"].size(), 1U);
  const json& node = answer.json["nodes"][0];
  EXPECT_EQ(node["id"], "alpha");
  EXPECT_EQ(node["goal"], "balanced");
  EXPECT_EQ(node["tuner"]["mode"], "auto");
  EXPECT_EQ(node["tuner"]["state"], "screening");
  EXPECT_EQ(node["tuner"]["paused_until"], nullptr);
  EXPECT_EQ(node["index"]["now"], 112.5);
  EXPECT_EQ(node["latest"]["read"]["iops"], 1000.0);
  EXPECT_EQ(node["latest"]["read"]["p99_us"], 400.0);
  EXPECT_EQ(node["latest"]["write"]["p99_us"], nullptr);  // no writes: not 0
  EXPECT_EQ(node["latest"]["cache"]["dirty_share"], 0.25);
  EXPECT_EQ(node["last_change"]["id"], "5");
  EXPECT_EQ(node["last_change"]["context"], "c3");
  EXPECT_EQ(node["uplift"]["since_attach"]["effect"]["mean"], 0.081);
  EXPECT_EQ(node["uplift"]["since_attach"]["blocks"], 12);
  EXPECT_EQ(node["uplift"]["recent"]["effect"], nullptr);
  EXPECT_EQ(node["uplift"]["recent"]["hours"], 24);
  EXPECT_NE(node["uplift"]["recent"]["missing"], "");
  EXPECT_EQ(node["uplift"]["last_dropped"], "the load shifted");
  EXPECT_EQ(node["context"]["id"], "c3");
  EXPECT_EQ(node["context"]["remembered"], true);
  EXPECT_EQ(node["context"]["best_effect"]["mean"], 0.08);
  EXPECT_EQ(node["context"]["best_change"], "5");
  EXPECT_EQ(Get("/api/v1/nodes/alpha").json, node);
}

TEST_F(RoutesTest, AttachesAndDetaches) {
  const Answer made =
      Ask("POST", "/api/v1/nodes",
          R"({"control_socket":"/run/ebb/b.sock","goal":"write","mode":"observe"})");
  EXPECT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.json["id"], "beta");
  EXPECT_EQ(made.json["goal"], "write");
  EXPECT_EQ(made.json["tuner"]["mode"], "observe");
  EXPECT_EQ(made.headers.find("Location")->second, "/api/v1/nodes/beta");

  EXPECT_EQ(Ask("DELETE", "/api/v1/nodes/beta?restore=true").status, 204);
  EXPECT_EQ(service_.last_call, "detach and restore");
  ExpectProblem(Get("/api/v1/nodes/beta"), 404, "not-found");
}

TEST_F(RoutesTest, AttachNamesEveryFaultAtOnce) {
  const Answer answer =
      Ask("POST", "/api/v1/nodes",
          R"({"control_socket":"relative","id":"Big Name","goal":"raed","mode":7,"gaol":1})");
  ExpectProblem(answer, 422, "invalid-content");
  std::map<std::string, json> by_pointer;
  for (const json& error : answer.json["errors"]) by_pointer[error["pointer"]] = error;
  EXPECT_EQ(by_pointer.size(), 5U) << answer.body;
  EXPECT_EQ(by_pointer["/goal"]["did_you_mean"], "read");
  EXPECT_EQ(by_pointer["/goal"]["got"], "\"raed\"");
  EXPECT_EQ(by_pointer["/gaol"]["did_you_mean"], "goal");
  EXPECT_EQ(by_pointer["/mode"]["detail"], "must be one of observe, recommend, approve, auto");
  EXPECT_TRUE(by_pointer.contains("/control_socket"));
  EXPECT_TRUE(by_pointer.contains("/id"));
}

TEST_F(RoutesTest, AttachToNothingIsTheClientsFault) {
  const Answer answer = Ask("POST", "/api/v1/nodes", R"({"control_socket":"/nothing/there.sock"})");
  ExpectProblem(answer, 422, "invalid-content");
  EXPECT_EQ(answer.json["errors"][0]["pointer"], "/control_socket");
  ExpectProblem(Ask("POST", "/api/v1/nodes", R"({"control_socket":"/x","id":"alpha"})"), 409,
                "conflict");
}

TEST_F(RoutesTest, MalformedJsonIsToldByByte) {
  const Answer answer = Ask("PUT", "/api/v1/nodes/alpha/goal", R"({"goal": read})");
  ExpectProblem(answer, 400, "malformed-json");
  EXPECT_EQ(answer.json["detail"], "The body stops being JSON at byte 9.");
  ExpectProblem(Ask("PUT", "/api/v1/nodes/alpha/goal", "[]"), 400, "malformed-json");
  ExpectProblem(Ask("PUT", "/api/v1/nodes/alpha/goal", "{\"goal\":\"\xff\"}"), 400,
                "malformed-json");
  ExpectProblem(Ask("PUT", "/api/v1/nodes/alpha/goal", "{\"goal\":1e999}"), 400, "malformed-json");
  ExpectProblem(Ask("PUT", "/api/v1/nodes/alpha/goal", R"({"goal":"read","goal":"write"})"), 422,
                "invalid-content");
}

TEST_F(RoutesTest, GoalIsReadAndSet) {
  EXPECT_EQ(Get("/api/v1/nodes/alpha/goal").json,
            json({{"goal", "balanced"},
                  {"weights", nullptr},
                  {"limits", {{"read_p99_us", nullptr}, {"write_p99_us", nullptr}}},
                  {"text", "balanced"}}));
  const Answer answer = Ask("PUT", "/api/v1/nodes/alpha/goal", R"({"goal":"read"})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.json["goal"], "read");
  EXPECT_TRUE(service_.last_actor.starts_with("operator")) << service_.last_actor;
  ExpectProblem(Ask("PUT", "/api/v1/nodes/alpha/goal", "{}"), 422, "invalid-content");
}

TEST_F(RoutesTest, AGoalHasWeightsAndLimits) {
  const std::string target = "/api/v1/nodes/alpha/goal";
  const Answer custom = Ask(
      "PUT", target,
      R"({"goal":"custom","weights":{"read_p99":0.75,"write_p50":0.25},"limits":{"read_p99_us":2000}})");
  ASSERT_EQ(custom.status, 200) << custom.body;
  EXPECT_EQ(custom.json["weights"], json({{"read_p99", 0.75}, {"write_p50", 0.25}}));
  EXPECT_EQ(custom.json["limits"]["read_p99_us"], 2000);
  EXPECT_EQ(Get("/api/v1/nodes/alpha").json["goal_text"],
            "custom (read_p99 75 %, write_p50 25 %), read p99 at most 2 ms");
  // Limits stay until they are set anew.
  EXPECT_EQ(Ask("PUT", target, R"({"goal":"read"})").json["text"], "read, read p99 at most 2 ms");
  EXPECT_EQ(Ask("PUT", target, R"({"goal":"read","limits":null})").json["text"], "read");
}

TEST_F(RoutesTest, EveryFaultOfAGoalIsNamedAtItsPlace) {
  const auto faults = [&](const std::string& body) {
    const Answer answer = Ask("PUT", "/api/v1/nodes/alpha/goal", body);
    ExpectProblem(answer, 422, "invalid-content");
    std::map<std::string, json> by_pointer;
    for (const json& error : answer.json["errors"]) by_pointer[error["pointer"]] = error;
    return by_pointer;
  };
  auto found = faults(
      R"({"goal":"custom","weights":{"raed_p99":0.5,"read_p50":"x"},"limits":{"read_p99_us":0}})");
  EXPECT_EQ(found.size(), 3U);
  EXPECT_EQ(found["/weights/raed_p99"]["did_you_mean"], "read_p99");
  EXPECT_EQ(found["/weights/read_p50"]["detail"], "must be a number");
  EXPECT_TRUE(found.contains("/limits/read_p99_us"));
  found = faults(R"({"goal":"custom","weights":{"read_p99":0.5,"read_p50":2}})");
  EXPECT_EQ(found["/weights/read_p50"]["detail"], "must be from 0 to 1, not 2");
  found = faults(R"({"goal":"custom","weights":{"read_p99":0.5}})");
  EXPECT_EQ(found["/weights"]["detail"], "must sum to 1, not 0.5");
  EXPECT_TRUE(faults(R"({"goal":"custom"})").contains("/weights"));
  EXPECT_TRUE(faults(R"({"goal":"read","weights":{"read_p99":1}})").contains("/weights"));
}

// Goal: the history says who asked, though TCP carries no user. Method: this process is the client.
TEST_F(RoutesTest, ActorIsTheUserBehindTheConnection) {
  Ask("PUT", "/api/v1/nodes/alpha/goal", R"({"goal":"read"})");
  const std::string uid = "operator:uid-" + std::to_string(getuid());
  const passwd* entry = getpwuid(getuid());
  EXPECT_EQ(service_.last_actor,
            entry != nullptr ? "operator:" + std::string(entry->pw_name) : uid);
}

TEST_F(RoutesTest, TunerPausesUntilATimeAndResumes) {
  const Answer paused = Ask("PATCH", "/api/v1/nodes/alpha/tuner",
                            R"({"paused":true,"reason":"backup","until":"2033-01-01T00:00:00Z"})");
  EXPECT_EQ(paused.status, 200) << paused.body;
  EXPECT_EQ(paused.json["paused"], true);
  EXPECT_EQ(paused.json["pause_reason"], "backup");
  EXPECT_EQ(paused.json["paused_until"], "2033-01-01T00:00:00.000Z");
  EXPECT_EQ(Ask("PATCH", "/api/v1/nodes/alpha/tuner", R"({"paused":false})").json["paused"], false);
  EXPECT_EQ(Ask("PATCH", "/api/v1/nodes/alpha/tuner", R"({"mode":"recommend"})").json["mode"],
            "recommend");
  EXPECT_EQ(Get("/api/v1/nodes/alpha/tuner").json["mode"], "recommend");
}

TEST_F(RoutesTest, TunerSaysWhatHappensAtExit) {
  EXPECT_EQ(Get("/api/v1/nodes/alpha/tuner").json["on_exit"], "keep");
  EXPECT_EQ(Ask("PATCH", "/api/v1/nodes/alpha/tuner", R"({"on_exit":"restore"})").json["on_exit"],
            "restore");
  const Answer wrong = Ask("PATCH", "/api/v1/nodes/alpha/tuner", R"({"on_exit":"restor"})");
  ExpectProblem(wrong, 422, "invalid-content");
  EXPECT_EQ(wrong.json["errors"][0]["did_you_mean"], "restore");
}

TEST_F(RoutesTest, TunerRefusesHalfAnOrder) {
  for (const std::string body : {R"({})", R"({"reason":"x"})", R"({"paused":false,"reason":"x"})",
                                 R"({"paused":"yes"})", R"({"paused":true,"until":1000})",
                                 R"({"paused":true,"until":"tomorrow"})", R"({"paused":null})"}) {
    ExpectProblem(Ask("PATCH", "/api/v1/nodes/alpha/tuner", body), 422, "invalid-content");
  }
  EXPECT_EQ(service_.last_call, "");
}

TEST_F(RoutesTest, RestoreGoesThroughAndARefusalIsAConflict) {
  EXPECT_EQ(Ask("POST", "/api/v1/nodes/alpha/restore").status, 200);
  EXPECT_EQ(service_.last_call, "restore");
  service_.refusal = absl::FailedPreconditionError("the node is draining; wait until it is clean");
  const Answer refused = Ask("POST", "/api/v1/nodes/alpha/restore");
  ExpectProblem(refused, 409, "conflict");
  EXPECT_EQ(refused.json["detail"], "the node is draining; wait until it is clean");
  service_.refusal = absl::UnavailableError("node gone");
  EXPECT_EQ(Ask("POST", "/api/v1/nodes/alpha/restore").headers.count("Retry-After"), 1U);
}

TEST_F(RoutesTest, KnobsAreListedAndPinned) {
  const Answer answer = Get("/api/v1/nodes/alpha/knobs");
  ASSERT_EQ(answer.json["knobs"].size(), 2U);
  EXPECT_EQ(answer.json["knobs"][0]["value_text"], "70 %");
  EXPECT_EQ(answer.json["knobs"][1]["value"], "lz4");
  EXPECT_EQ(answer.json["knobs"][1]["owner"], "operator");
  const Answer pinned = Ask("PATCH", "/api/v1/nodes/alpha/knobs/compression", R"({"pinned":true})");
  EXPECT_EQ(pinned.json["pinned"], true) << pinned.body;
  EXPECT_EQ(Get("/api/v1/nodes/alpha/knobs/compression").json["pinned"], true);
  const Answer unknown = Ask("PATCH", "/api/v1/nodes/alpha/knobs/compresion", R"({"pinned":true})");
  ExpectProblem(unknown, 404, "not-found");
  EXPECT_NE(unknown.json["detail"].get<std::string>().find("'compression'"), std::string::npos);
}

TEST_F(RoutesTest, RecommendationsTellBoundsGainAndExpiry) {
  const Answer answer = Get("/api/v1/recommendations?node=alpha&state=waiting");
  ASSERT_EQ(answer.status, 200) << answer.body;
  ASSERT_EQ(answer.json["recommendations"].size(), 1U);
  const json& advice = answer.json["recommendations"][0];
  EXPECT_EQ(advice["id"], "r0123456789");
  EXPECT_EQ(advice["change"], "5");
  EXPECT_EQ(advice["state"], "waiting");
  EXPECT_EQ(advice["knobs"][0]["low_text"], "5 %");
  EXPECT_EQ(advice["knobs"][0]["high"], 90);
  EXPECT_EQ(advice["knobs"][1]["to"], "off");
  EXPECT_EQ(advice["knobs"][1]["high"], "lz4");
  EXPECT_EQ(advice["expected"], json({{"mean", 0.1}, {"low", 0.02}, {"high", 0.18}}));
  EXPECT_EQ(advice["expires_at"], "2023-11-15T22:13:20.000Z");
  EXPECT_EQ(advice["decided_at"], nullptr);
  EXPECT_EQ(Get("/api/v1/recommendations/r0123456789").json, advice);
  EXPECT_EQ(Get("/api/v1/recommendations?state=rejected").json["recommendations"].size(), 0U);
  ExpectProblem(Get("/api/v1/recommendations?state=wating"), 400, "bad-parameter");
  ExpectProblem(Get("/api/v1/recommendations?node=alpah"), 404, "not-found");
}

TEST_F(RoutesTest, RecommendationsAreDecidedWithAReasonByAPerson) {
  const std::string target = "/api/v1/recommendations/r0123456789/decision";
  const Answer half = Ask("POST", target, R"({"decision":"aprove","reson":"x"})");
  ExpectProblem(half, 422, "invalid-content");
  EXPECT_EQ(half.json["errors"].size(), 2U) << half.body;
  EXPECT_EQ(half.json["errors"][0]["did_you_mean"], "approve");
  const Answer rejected = Ask("POST", target, R"({"decision":"reject","reason":"too large"})");
  EXPECT_EQ(rejected.status, 200) << rejected.body;
  EXPECT_EQ(rejected.json["state"], "rejected");
  EXPECT_EQ(rejected.json["decision_reason"], "too large");
  EXPECT_EQ(rejected.json["decided_by"], service_.last_actor);
  EXPECT_TRUE(service_.last_actor.starts_with("operator")) << service_.last_actor;
  service_.refusal = absl::FailedPreconditionError("nothing is applied in this mode");
  ExpectProblem(Ask("POST", target, R"({"decision":"approve"})"), 409, "conflict");
  const Answer unknown =
      Ask("POST", "/api/v1/recommendations/r0123456788/decision", R"({"decision":"approve"})");
  ExpectProblem(unknown, 404, "not-found");
  EXPECT_NE(unknown.json["detail"].get<std::string>().find("'r0123456789'"), std::string::npos);
}

TEST_F(RoutesTest, ChangesAreFilteredAndCarryTheirWords) {
  const Answer all = Get("/api/v1/changes");
  ASSERT_EQ(all.json["changes"].size(), 5U);
  EXPECT_EQ(all.json["next_cursor"], nullptr);
  const json& newest = all.json["changes"][0];
  EXPECT_EQ(newest["id"], "5");
  EXPECT_EQ(newest["proposed_at"], "2023-11-14T22:18:20.000Z");
  EXPECT_EQ(newest["knobs"][0], json({{"knob", "destage_watermark"},
                                      {"from", 50},
                                      {"to", 70},
                                      {"from_text", "50 %"},
                                      {"to_text", "70 %"}}));
  EXPECT_EQ(all.json["changes"][1]["knobs"][0]["to"], "lz4");
  EXPECT_EQ(newest["measured"]["low"], 0.03);
  EXPECT_EQ(Get("/api/v1/nodes/alpha/changes").json, all.json);
  EXPECT_EQ(Get("/api/v1/changes?knob=compression").json["changes"].size(), 2U);
  EXPECT_EQ(Get("/api/v1/changes?outcome=keep").json["changes"].size(), 1U);
  EXPECT_EQ(Get("/api/v1/changes?actor=operator").json["changes"].size(), 2U);
  EXPECT_EQ(Get("/api/v1/changes?context=c3").json["changes"].size(), 3U);
  EXPECT_EQ(Get("/api/v1/changes?goal=read").json["changes"].size(), 0U);
  EXPECT_EQ(Get("/api/v1/changes?from=2023-11-14T22:16:20Z").json["changes"].size(), 3U);
  EXPECT_EQ(Get("/api/v1/changes?from=1700000120000&to=1700000180000").json["changes"].size(), 1U);
  EXPECT_EQ(Get("/api/v1/changes/5").json, newest);
}

TEST_F(RoutesTest, CursorWalksTheWholeHistoryOnce) {
  std::string seen;
  std::string target = "/api/v1/changes?limit=2";
  for (int page = 0; page < 10; ++page) {
    const Answer answer = Get(target);
    ASSERT_EQ(answer.status, 200);
    for (const json& change : answer.json["changes"]) seen += change["id"].get<std::string>();
    if (answer.json["next_cursor"].is_null()) break;
    target = "/api/v1/changes?limit=2&cursor=" + answer.json["next_cursor"].get<std::string>();
  }
  EXPECT_EQ(seen, "54321");
  // A full page that is also the last one says so.
  EXPECT_EQ(Get("/api/v1/changes?limit=5").json["next_cursor"], nullptr);
}

TEST_F(RoutesTest, BadQueriesNameEveryFault) {
  const Answer answer =
      Get("/api/v1/changes?limit=0&cursor=zz&outcome=kept&from=yesterday&knbo=x&actor=");
  ExpectProblem(answer, 400, "bad-parameter");
  std::map<std::string, json> by_name;
  for (const json& error : answer.json["errors"]) by_name[error["parameter"]] = error;
  EXPECT_EQ(by_name.size(), 6U) << answer.body;
  EXPECT_EQ(by_name["outcome"]["did_you_mean"], "keep");
  EXPECT_EQ(by_name["knbo"]["did_you_mean"], "knob");
  for (const std::string target :
       {"/api/v1/changes?limit=501", "/api/v1/changes?limit=1&limit=2", "/api/v1/changes?cursor=c0",
        "/api/v1/changes?from=2&to=1", "/api/v1/changes?cursor=c99999999999999999999",
        "/api/v1/nodes?x=1", "/metrics?x=1", "/api/v1/nodes/alpha/series?max_points=0",
        "/api/v1/nodes/alpha/series?from=5&to=5"}) {
    ExpectProblem(Get(target), 400, "bad-parameter");
  }
  ExpectProblem(Get("/api/v1/changes?from=%zz"), 400, "bad-request");
  ExpectProblem(Ask("DELETE", "/api/v1/nodes/alpha?restore=maybe"), 400, "bad-parameter");
}

TEST_F(RoutesTest, SeriesIsColumnsOfOneLengthWithGapsAsNull) {
  const Answer answer =
      Get("/api/v1/nodes/alpha/series?from=1700000000000&to=1700000010000&max_points=100");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json["count"], 10);
  for (const auto& [name, column] : answer.json["series"].items()) {
    EXPECT_EQ(column.size(), 10U) << name;
  }
  EXPECT_EQ(answer.json["series"]["index"][3], nullptr);
  EXPECT_EQ(answer.json["series"]["index"][4], 104.0);
  EXPECT_EQ(answer.json["series"]["time_ms"][0], 1'700'000'000'000);
  EXPECT_EQ(answer.json["bucket_ms"], 0);
  EXPECT_EQ(answer.json["min"], nullptr);
}

TEST_F(RoutesTest, APointOfManyWindowsHasMinMaxAndCounts) {
  const Answer answer =
      Get("/api/v1/nodes/alpha/series?from=1700000000000&to=1700000060000&max_points=1");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json["bucket_ms"], 60'000);
  EXPECT_EQ(answer.json["series"]["index"][0], 129.5);
  EXPECT_EQ(answer.json["series"]["windows"][0], 60);
  EXPECT_EQ(answer.json["min"]["index"][0], 100);
  EXPECT_EQ(answer.json["max"]["index"][0], 159);
  EXPECT_EQ(answer.json["counts"]["index"][0], 59);
}

TEST_F(RoutesTest, UnknownNodesAreNotFoundEverywhere) {
  for (const RouteInfo& route : RestApi::Routes()) {
    std::string target(route.pattern);
    const size_t brace = target.find("{node}");
    if (brace == target.npos) continue;
    target.replace(brace, 6, "alpah");
    if (const size_t knob = target.find("{knob}"); knob != target.npos) {
      target.replace(knob, 6, "compression");
    }
    std::string body;
    if (route.method == "PUT") body = R"({"goal":"read"})";
    if (route.method == "PATCH") {
      body = target.find("tuner") != target.npos ? R"({"mode":"auto"})" : R"({"pinned":true})";
    }
    const Answer answer = Ask(std::string(route.method), target, body);
    ExpectProblem(answer, 404, "not-found");
    EXPECT_EQ(answer.json["detail"], "No such node is attached; did you mean 'alpha'?") << target;
  }
  for (const std::string target : {"/api/v1/changes/99", "/api/v1/changes/abc", "/api/v1/changes/0",
                                   "/api/v2", "/", "/api/v1/nodes/", "/api/v1/nodes/a%2Fb"}) {
    ExpectProblem(Get(target), 404, "not-found");
  }
}

TEST_F(RoutesTest, WrongMethodsAreToldWhatIsAllowed) {
  for (const std::string method : {"POST", "PUT", "PATCH", "DELETE"}) {
    const Answer answer = Ask(method, "/api/v1/changes");
    ExpectProblem(answer, 405, "method-not-allowed");
    EXPECT_EQ(answer.headers.find("Allow")->second, "GET, HEAD, OPTIONS");
  }
  EXPECT_EQ(Ask("OPTIONS", "/api/v1/nodes/alpha").headers.find("Allow")->second,
            "DELETE, GET, HEAD, OPTIONS");
  EXPECT_EQ(Ask("HEAD", "/api/v1/nodes").status, 200);
}

TEST_F(RoutesTest, BodiesMustBeJsonAndBelongThere) {
  ExpectProblem(Ask("PUT", "/api/v1/nodes/alpha/goal", "goal=read",
                    {{"Content-Type", "application/x-www-form-urlencoded"}}),
                415, "unsupported-media-type");
  ExpectProblem(Ask("PUT", "/api/v1/nodes/alpha/goal"), 415, "unsupported-media-type");
  ExpectProblem(Ask("POST", "/api/v1/nodes/alpha/restore", "{}"), 400, "bad-request");
  EXPECT_EQ(Ask("PUT", "/api/v1/nodes/alpha/goal", R"({"goal":"read"})",
                {{"Content-Type", "application/json; charset=utf-8"}})
                .status,
            200);
}

TEST_F(RoutesTest, ProbesTellAliveReadyAndWell) {
  EXPECT_EQ(Get("/livez").status, 200);
  EXPECT_EQ(Get("/readyz").status, 503);
  api_.SetReady(true);
  EXPECT_EQ(Get("/readyz").status, 200);
  EXPECT_EQ(Get("/healthz").json["status"], "ok");
}

TEST_F(RoutesTest, AnExceptionLeaksNothingAndIsLogged) {
  service_.throw_in_nodes = true;
  const Answer answer = Get("/api/v1/nodes");
  ExpectProblem(answer, 500, "internal");
  EXPECT_EQ(answer.body.find("secret"), std::string::npos);
  for (const auto& [name, value] : answer.headers) {
    EXPECT_EQ(value.find("secret"), std::string::npos) << name;
  }
  ASSERT_EQ(errors_.size(), 1U);
  EXPECT_NE(errors_[0].find("secret path /var/x"), std::string::npos);
  EXPECT_NE(errors_[0].find(answer.json["request_id"].get<std::string>()), std::string::npos);
}

}  // namespace
}  // namespace ebb::rest
