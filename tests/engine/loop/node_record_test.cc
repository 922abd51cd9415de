#include "engine/loop/node_record.h"

#include <gtest/gtest.h>

namespace ebb::engine {
namespace {

TEST(NodeRecordTest, SurvivesJson) {
  NodeRecord record;
  record.id = "a";
  record.control_socket = "/run/a.sock";
  ASSERT_TRUE(ReadWeights({{"read_p99", 0.25}, {"write_p99", 0.75}}, record.goal).empty());
  record.goal.limits.read_p99_us_max = 2000;
  record.mode = Mode::kRecommend;
  record.on_exit = OnExit::kRestore;
  record.paused = true;
  record.paused_until_ms = 123;
  record.pause_reason = "backup \"window\"";
  record.before_attach = {{"x", 1}};
  record.standard = {{"x", 2}};
  record.incumbent = {{"x", 3}};
  record.last_node_event = 9;
  record.pins = {{"x", "foreign"}};
  record.sources = {{"x", "foreign"}};
  record.since_ms = {{"x", 77}};
  record.restore_wanted = true;
  record.restore_actor = "operator:root";
  record.open = OpenWork{OpenWork::Kind::kRestore, 8, {{"x", 1}}, "{}"};

  const absl::StatusOr<NodeRecord> read = RecordFromJson(RecordToJson(record));

  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(RecordToJson(*read), RecordToJson(record));
  EXPECT_EQ(read->goal, record.goal);
  EXPECT_EQ(read->open->kind, OpenWork::Kind::kRestore);
  EXPECT_EQ(*read->paused_until_ms, 123);
}

TEST(NodeRecordTest, RefusesWhatItCannotRead) {
  EXPECT_FALSE(RecordFromJson("").ok());
  EXPECT_FALSE(RecordFromJson("{}").ok());
  EXPECT_FALSE(RecordFromJson("[1]").ok());
}

TEST(NodeRecordTest, ANewKnobKeepsItsBaseValue) {
  std::vector<env::KnobSpec> knobs(2);
  knobs[0].name = "old";
  knobs[1].name = "new";
  const env::KnobSpace space(knobs);

  const env::Setting setting =
      UnnameSetting(space, {{"old", 5}, {"gone", 6}}, env::Setting{{1, 2}});

  EXPECT_EQ(setting.values, (std::vector<int64_t>{5, 2}));
}

}  // namespace
}  // namespace ebb::engine
