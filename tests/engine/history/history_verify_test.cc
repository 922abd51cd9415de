// `ebb history verify` on a history's files, whole and tampered with.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "engine/history/history.h"
#include "tests/engine/history/history_test_helpers.h"
#include "tests/support/program.h"

namespace ebb::engine {
namespace {

using ::testing::HasSubstr;
using Rows = std::vector<std::pair<std::string, std::string>>;

class HistoryVerifyTest : public ::testing::Test {
 protected:
  HistoryVerifyTest() { Append(5); }

  void Append(int count) {
    const auto history = OpenHistory(directory_, {});
    ASSERT_TRUE(history.ok()) << history.status();
    for (int i = 0; i < count; ++i) {
      Change change = MakeChange("a", i, "read_cache_bytes");
      ASSERT_TRUE(Put(**history, change).ok());
    }
  }
  ebb::testing::ProgramResult Verify(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"history", "verify", "--state-dir", scratch_.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ebb::testing::RunProgram(std::string(EBB_BINARY_DIR) + "/bin/ebb", arguments);
  }
  std::string Head() {
    const auto seen = Verify({"--json"});
    EXPECT_EQ(seen.exit_code, 0) << seen.err;
    return nlohmann::json::parse(seen.out)["head_hash"];
  }
  // What somebody with the disk in hand does.
  void Tamper(const std::function<std::vector<StoreEdit>(const Rows& events)>& edit) {
    const auto store = OpenRocksStore(directory_);
    ASSERT_TRUE(store.ok()) << store.status();
    Rows rows;
    ASSERT_TRUE((*store)
                    ->Scan(Table::kEvents, "", "\xff\xff", false,
                           [&](std::string_view key, std::string_view value) {
                             rows.emplace_back(key, value);
                             return true;
                           })
                    .ok());
    ASSERT_TRUE((*store)->Write(edit(rows), true).ok());
  }
  std::map<std::string, std::string> Files() {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      std::ifstream file(entry.path(), std::ios::binary);
      files[entry.path()] = {std::istreambuf_iterator<char>(file), {}};
    }
    return files;
  }

  const ebb::testing::ScratchFolder scratch_;
  const std::string directory_ = scratch_.path() + "/history";
};

TEST_F(HistoryVerifyTest, AWholeHistoryIsExitCodeZeroAndNoFileChanges) {
  const auto before = Files();

  const auto seen = Verify();

  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_THAT(seen.out, HasSubstr("5 events and 5 changes"));
  EXPECT_EQ(Files(), before);
}

TEST_F(HistoryVerifyTest, AHistoryInUseIsVerifiedToo) {
  const auto history = OpenHistory(directory_, {});
  ASSERT_TRUE(history.ok()) << history.status();
  Change change = MakeChange("a", 9, "read_cache_bytes");
  ASSERT_TRUE(Put(**history, change).ok());

  const auto seen = Verify();

  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_THAT(seen.out, HasSubstr("6 events"));
}

// The checksum is put right: it is against decay, the chain is against people.
TEST_F(HistoryVerifyTest, AnAlteredEventIsNamed) {
  Tamper([](const Rows& events) {
    std::string value = events[2].second;
    value.replace(value.find("wait for the disk"), 17, "were always quick");
    const uint32_t crc = Crc32c(std::as_bytes(std::span(value).subspan(4)));
    for (size_t i = 0; i < 4; ++i) value[i] = static_cast<char>(crc >> (8 * i));
    return std::vector<StoreEdit>{{Table::kEvents, events[2].first, value}};
  });

  const auto seen = Verify();

  EXPECT_EQ(seen.exit_code, 1);
  EXPECT_THAT(seen.err, HasSubstr("event 3 or one before it was altered"));
}

TEST_F(HistoryVerifyTest, ARemovedEventIsNamed) {
  Tamper([](const Rows& events) {
    return std::vector<StoreEdit>{{Table::kEvents, events[1].first, std::nullopt}};
  });

  const auto seen = Verify();

  EXPECT_EQ(seen.exit_code, 1);
  EXPECT_THAT(seen.err, HasSubstr("event 2 is missing"));
}

TEST_F(HistoryVerifyTest, MovedEventsAreNamed) {
  Tamper([](const Rows& events) {
    return std::vector<StoreEdit>{{Table::kEvents, events[1].first, events[2].second},
                                  {Table::kEvents, events[2].first, events[1].second}};
  });

  const auto seen = Verify();

  EXPECT_EQ(seen.exit_code, 1);
  EXPECT_THAT(seen.err, HasSubstr("event 2 or one before it was altered"));
}

// A chain alone cannot tell that its end was cut off and the head put back: a head noted elsewhere
// can.
TEST_F(HistoryVerifyTest, ANotedHeadProvesThatNothingUpToItWasCutOff) {
  const std::string earlier = Head();
  std::filesystem::copy(directory_, scratch_.path() + "/copy",
                        std::filesystem::copy_options::recursive);
  Append(3);
  const std::string noted = Head();
  EXPECT_EQ(Verify({"--noted", earlier}).exit_code, 0);
  EXPECT_EQ(Verify({"--noted", noted}).exit_code, 0);

  std::filesystem::remove_all(directory_);
  std::filesystem::rename(scratch_.path() + "/copy", directory_);

  EXPECT_EQ(Verify().exit_code, 0);
  const auto cut = Verify({"--noted", noted});
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_THAT(cut.err, HasSubstr("rewritten since"));
}

TEST_F(HistoryVerifyTest, WhereThereIsNoHistoryNoneIsMade) {
  std::filesystem::remove_all(directory_);

  const auto seen = Verify();

  EXPECT_NE(seen.exit_code, 0);
  EXPECT_THAT(seen.err, HasSubstr("there is no history"));
  EXPECT_FALSE(std::filesystem::exists(directory_));
}

}  // namespace
}  // namespace ebb::engine
