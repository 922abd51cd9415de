#include "env/node/node_codec.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ebb::env {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

Json KnobsJson() {
  return Json::parse(R"({"knobs": [
    {"name": "share", "kind": "percent", "min": 0, "max": 90, "default": 30, "step": 5,
     "log_scale": false, "unit": "%", "choices": [], "settle_seconds": 20, "owner": "agent",
     "coupled_with": "", "trades": "Reads against writes."},
    {"name": "codec", "kind": "choice", "min": 0, "max": 2, "default": "lz4", "step": 1,
     "log_scale": false, "unit": "", "choices": ["off", "lz4", "zstd1"], "settle_seconds": 10,
     "owner": "operator", "coupled_with": "share", "trades": "Time against space."}]})");
}

KnobSpace Space() { return *DecodeKnobSpace(KnobsJson().dump()); }

Json SnapshotJson() {
  const Json op = Json::parse(
      R"({"ops": 2, "bytes": 8192, "errors": 0, "latency": {"sum_ns": 300, "buckets": [[20, 2]]}})");
  return {{"wall_ms", 1},
          {"monotonic_ns", 2},
          {"uptime_ns", 2},
          {"node_epoch", 3},
          {"setting_version", 4},
          {"ops", {{"read", op}, {"write", op}, {"flush", op}, {"trim", op}}},
          {"counters", {{"destaged_blocks", 7}}},
          {"gauges", {{"dirty_share", 0.5}, {"draining", true}}}};
}

TEST(NodeCodecTest, ReadsKnobs) {
  const KnobSpace space = Space();

  ASSERT_EQ(space.size(), 2u);
  EXPECT_EQ(space[0].kind, KnobKind::kPercent);
  EXPECT_EQ(space[0].settle_seconds, 20);
  EXPECT_TRUE(space[0].agent_owned);
  EXPECT_EQ(space[1].default_value, 1);
  EXPECT_FALSE(space[1].agent_owned);
  EXPECT_EQ(space[1].coupled_with, "share");
}

TEST(NodeCodecTest, RefusesKnobsThatCannotBe) {
  Json zero_step = KnobsJson();
  zero_step["knobs"][0]["step"] = 0;
  Json bad_word = KnobsJson();
  bad_word["knobs"][1]["default"] = "zip";
  Json bad_kind = KnobsJson();
  bad_kind["knobs"][0]["kind"] = "colour";
  Json short_choices = KnobsJson();
  short_choices["knobs"][1]["max"] = 5;

  EXPECT_THAT(std::string(DecodeKnobSpace(zero_step.dump()).status().message()),
              HasSubstr("knobs[0] has an impossible range"));
  EXPECT_THAT(std::string(DecodeKnobSpace(bad_word.dump()).status().message()),
              HasSubstr("knobs[1].default \"zip\" is none of its choices"));
  EXPECT_THAT(std::string(DecodeKnobSpace(bad_kind.dump()).status().message()),
              HasSubstr("knobs[0].kind is unknown"));
  EXPECT_FALSE(DecodeKnobSpace(short_choices.dump()).ok());
}

TEST(NodeCodecTest, ReadsWhatANodeRunsOn) {
  const Json info =
      Json::parse(R"({"groups": 1, "threads": 8, "host_memory_bytes": 1024, "devices": [
    {"role": "cache", "size_bytes": 5, "shape": "nvme", "shape_scale": 2.5},
    {"role": "capacity 1", "size_bytes": 6, "shape": null, "shape_scale": 1}]})");

  const absl::StatusOr<NodeMachine> machine = DecodeNodeMachine(info.dump());

  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->threads, 8u);
  EXPECT_EQ(machine->host_memory_bytes, 1024u);
  ASSERT_EQ(machine->devices.size(), 2u);
  EXPECT_EQ(machine->devices[0].shape, "nvme");
  EXPECT_EQ(machine->devices[0].shape_scale, 2.5);
  EXPECT_EQ(machine->devices[1].role, "capacity 1");
  EXPECT_EQ(machine->devices[1].shape, "");
  for (const char* field : {"/groups", "/threads", "/host_memory_bytes", "/devices",
                            "/devices/0/size_bytes", "/devices/1/shape_scale"}) {
    Json wrong = info;
    wrong[Json::json_pointer(field)] = "text";
    EXPECT_FALSE(DecodeNodeMachine(wrong.dump()).ok()) << field;
  }
}

TEST(NodeCodecTest, ReadsSettings) {
  const std::string json = R"({"version": 9, "setting": {"share": 40, "codec": "off"},
    "incumbent": {"share": 30, "codec": "off"}, "lease": {"id": "L1", "expires_in_ms": 5,
    "trips": {}}, "last_revert": null})";

  const absl::StatusOr<SettingState> state = DecodeSettings(Space(), json);

  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->version, 9u);
  EXPECT_EQ(state->current, (Setting{{40, 0}}));
  EXPECT_EQ(state->incumbent, (Setting{{30, 0}}));
  EXPECT_EQ(state->lease, "L1");
}

TEST(NodeCodecTest, ReadsASnapshot) {
  const absl::StatusOr<NodeSnapshot> snapshot = DecodeSnapshot(SnapshotJson().dump());

  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(snapshot->epoch, 3u);
  EXPECT_EQ(snapshot->read.latency.count(), 2u);
  EXPECT_EQ(snapshot->read.latency.sum_ns(), 300u);
  EXPECT_EQ(snapshot->Counter("destaged_blocks"), 7u);
  EXPECT_EQ(snapshot->Gauge("draining"), 1);
}

// Goal: no answer of a broken or foreign peer may pass for a measurement or stop the daemon.
// Method: every field of a good snapshot is replaced by wrong types and removed, in turn.
TEST(NodeCodecTest, EverySnapshotFieldIsChecked) {
  const Json good = SnapshotJson();
  for (const char* field :
       {"/wall_ms", "/monotonic_ns", "/node_epoch", "/setting_version", "/ops", "/ops/read",
        "/ops/read/ops", "/ops/write/bytes", "/ops/flush/errors", "/ops/trim/latency",
        "/ops/read/latency/sum_ns", "/ops/read/latency/buckets", "/counters",
        "/counters/destaged_blocks", "/gauges", "/gauges/dirty_share"}) {
    const Json::json_pointer pointer(field);
    for (const Json& wrong : {Json("text"), Json(nullptr), Json(-1.5), Json::array({1})}) {
      Json json = good;
      json[pointer] = wrong;
      if (std::string(field) == "/gauges/dirty_share" && wrong.is_number()) continue;
      EXPECT_FALSE(DecodeSnapshot(json.dump()).ok()) << field << " = " << wrong;
    }
  }
  Json missing = good;
  missing.erase("node_epoch");
  EXPECT_THAT(std::string(DecodeSnapshot(missing.dump()).status().message()),
              HasSubstr("node_epoch is missing"));
  Json bucket = good;
  bucket["ops"]["read"]["latency"]["buckets"] = Json::parse("[[100000, 1]]");
  EXPECT_FALSE(DecodeSnapshot(bucket.dump()).ok());
  EXPECT_FALSE(DecodeSnapshot("{").ok());
  EXPECT_FALSE(DecodeSnapshot("[]").ok());
  EXPECT_FALSE(DecodeSnapshot("").ok());
}

TEST(NodeCodecTest, ReadsTheStream) {
  const std::string json = R"({"records": [[5, "R", 4096, 8192, 77], [6, "F", 0, 0, 1]],
    "next": 12, "dropped": 3, "sample_rate": 0.125})";

  const absl::StatusOr<StreamSlice> slice = DecodeStream(json);

  ASSERT_TRUE(slice.ok()) << slice.status();
  ASSERT_EQ(slice->entries.size(), 2u);
  EXPECT_EQ(slice->entries[0].offset, 4096u);
  EXPECT_EQ(slice->entries[1].op, 'F');
  EXPECT_EQ(slice->next, 12u);
  EXPECT_EQ(slice->sample_rate, 0.125);
  EXPECT_EQ(slice->dropped, 3u);
  EXPECT_FALSE(slice->entries[1].has_content);
  const auto row = [](const std::string& text, const std::string& rate = "1") {
    return DecodeStream(R"({"records": [)" + text +
                        R"(], "next": 1, "dropped": 0, "sample_rate": )" + rate + "}");
  };
  const absl::StatusOr<StreamSlice> content = row(R"([1, "W", 0, 4096, 5, 77, 300])");
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_TRUE(content->entries[0].has_content);
  EXPECT_EQ(content->entries[0].fingerprint, 77u);
  EXPECT_EQ(content->entries[0].compressed_per_mille, 300);
  EXPECT_FALSE(row("[5]").ok());
  EXPECT_FALSE(row(R"([1, "X", 0, 4096, 5])").ok());
  EXPECT_FALSE(row(R"([1, "W", 0, 4096, 5, 77])").ok());
  EXPECT_FALSE(row("", "0").ok());
  EXPECT_FALSE(DecodeStream(R"({"records": [], "next": 1, "sample_rate": 1})").ok());
}

TEST(NodeCodecTest, ReadsEvents) {
  const std::string json = R"({"events": [{"number": 3, "wall_ms": 8, "kind": "lease_expired",
    "text": "the lease ran out", "setting_version": 6, "lease": "L1", "reading": null}]})";

  const absl::StatusOr<std::vector<NodeEvent>> events = DecodeEvents(json);

  ASSERT_TRUE(events.ok()) << events.status();
  ASSERT_EQ(events->size(), 1u);
  EXPECT_EQ(events->front().kind, NodeEvent::Kind::kLeaseExpired);
  EXPECT_EQ(events->front().lease, "L1");
  EXPECT_FALSE(DecodeEvents(R"({"events": [{"number": 3}]})").ok());
}

TEST(NodeCodecTest, WritesASettingWithWordsTripsAndShortenedTexts) {
  LeaseTerms terms;
  terms.lease_ms = 5000;
  terms.trips.read_p99_us_max = 1500.5;
  terms.actor = std::string(300, 'a');
  terms.reason = "why";

  const Json json = Json::parse(EncodeSet(Space(), Setting{{40, 2}}, 7, terms));

  EXPECT_EQ(json["setting"], Json::parse(R"({"share": 40, "codec": "zstd1"})"));
  EXPECT_EQ(json["version"], 7);
  EXPECT_EQ(json["lease_ms"], 5000);
  EXPECT_EQ(json["trips"], Json::parse(R"({"read_p99_us_max": 1500.5})"));
  EXPECT_EQ(json["actor"].get<std::string>().size(), 200u);
  EXPECT_EQ(json["reason"], "why");
  terms.lease_ms = 0;
  EXPECT_FALSE(Json::parse(EncodeSet(Space(), Setting{{40, 2}}, 7, terms)).contains("lease_ms"));
}

}  // namespace
}  // namespace ebb::env
