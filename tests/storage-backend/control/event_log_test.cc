#include "storage-backend/control/event_log.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <memory>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/storage-backend/control/scratch_dir.h"

namespace ebb::storage {
namespace {

NodeEvent EventOf(const std::string& text) {
  NodeEvent event;
  event.wall_ms = 1'700'000'000'000;
  event.kind = NodeEvent::Kind::kTripped;
  event.text = text;
  event.setting_version = 12;
  event.lease = "ab-1";
  event.reading = TripReading{"read_p99_us_max", 5120.5, 3000};
  return event;
}

class EventLogTest : public testing::Test {
 protected:
  std::unique_ptr<EventLog> Open() {
    absl::StatusOr<std::unique_ptr<EventLog>> log = EventLog::Open(path());
    EXPECT_TRUE(log.ok()) << log.status();
    return log.ok() ? *std::move(log) : nullptr;
  }
  std::string path() const { return scratch_.File("events.jsonl"); }

  std::string Content() const {
    std::ifstream file(path(), std::ios::binary);
    std::stringstream content;
    content << file.rdbuf();
    return content.str();
  }
  void Overwrite(const std::string& content) {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << content;
  }

  ScratchDir scratch_;
};

TEST_F(EventLogTest, KeepsEveryFieldAcrossAReopen) {
  ASSERT_TRUE(Open()->Append(EventOf("a \"quoted\" line\nand ü"), /*durable=*/true).ok());

  const std::vector<NodeEvent> events = Open()->After(0, 10);

  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].number, 1U);
  EXPECT_EQ(events[0].wall_ms, 1'700'000'000'000);
  EXPECT_EQ(events[0].kind, NodeEvent::Kind::kTripped);
  EXPECT_EQ(events[0].text, "a \"quoted\" line\nand ü");
  EXPECT_EQ(events[0].setting_version, 12U);
  EXPECT_EQ(events[0].lease, "ab-1");
  ASSERT_TRUE(events[0].reading);
  EXPECT_EQ(events[0].reading->value, 5120.5);
}

TEST_F(EventLogTest, NumbersGoOnAfterAReopenAndAfterSelects) {
  {
    const auto log = Open();
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(log->Append(EventOf("x"), false).ok());
  }
  const auto log = Open();
  ASSERT_TRUE(log->Append(EventOf("y"), false).ok());

  EXPECT_EQ(log->last_number(), 6U);
  const std::vector<NodeEvent> events = log->After(3, 2);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].number, 4U);
  EXPECT_EQ(events[1].number, 5U);
  EXPECT_TRUE(log->After(6, 10).empty());
  EXPECT_TRUE(log->After(1000, 10).empty());
}

// Goal: whatever part of the last line kill -9 left, the events before it are back and the next one
// is readable. Method: cut the file at every byte of its last line.
TEST_F(EventLogTest, TornLastLineIsCutAway) {
  {
    const auto log = Open();
    ASSERT_TRUE(log->Append(EventOf("first"), false).ok());
    ASSERT_TRUE(log->Append(EventOf("second"), false).ok());
  }
  const std::string whole = Content();
  const size_t second_begins = whole.find('\n') + 1;
  for (size_t cut = second_begins; cut < whole.size(); ++cut) {
    Overwrite(whole.substr(0, cut));
    {
      const auto log = Open();
      ASSERT_EQ(log->last_number(), 1U) << "cut at " << cut;
      ASSERT_TRUE(log->Append(EventOf("third"), false).ok());
    }
    const std::vector<NodeEvent> events = Open()->After(0, 10);
    ASSERT_EQ(events.size(), 2U) << "cut at " << cut;
    ASSERT_EQ(events[1].text, "third");
  }
}

TEST_F(EventLogTest, DamagedLineIsLeftOutAndCounted) {
  {
    const auto log = Open();
    for (const char* text : {"first", "second", "third"}) {
      ASSERT_TRUE(log->Append(EventOf(text), false).ok());
    }
  }
  std::string content = Content();
  content.replace(content.find("second"), 6, "SECOND");
  Overwrite(content);

  const auto log = Open();

  EXPECT_EQ(log->damaged_lines(), 1U);
  const std::vector<NodeEvent> events = log->After(0, 10);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].text, "third");
  EXPECT_EQ(Open()->damaged_lines(), 0U) << "the file was mended";
}

TEST_F(EventLogTest, KeepsTheLastTenThousandAndTheFileBounded) {
  const size_t count = 2 * EventLog::kEventsKept + 50;
  {
    const auto log = Open();
    for (size_t i = 0; i < count; ++i) ASSERT_TRUE(log->Append(EventOf("x"), false).ok());
    EXPECT_EQ(log->After(0, count).size(), EventLog::kEventsKept);
  }
  const std::string content = Content();
  EXPECT_LT(std::count(content.begin(), content.end(), '\n'),
            static_cast<std::ptrdiff_t>(EventLog::kEventsKept + 60));

  const auto log = Open();
  EXPECT_EQ(log->last_number(), count);
  EXPECT_EQ(log->After(0, count).front().number, count - EventLog::kEventsKept + 1);
}

TEST_F(EventLogTest, EventThatCannotBeWrittenIsKeptAndWrittenLater) {
  const auto log = Open();
  ASSERT_TRUE(log->Append(EventOf("first"), false).ok());
  // Fill the file up to the limit that the process may write: the kernel cuts the line short.
  struct rlimit old_limit {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  signal(SIGXFSZ, SIG_IGN);
  const struct rlimit tight { Content().size() + 10, old_limit.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  EXPECT_FALSE(log->Append(EventOf("second"), false).ok());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  EXPECT_EQ(log->After(0, 10).size(), 2U);

  ASSERT_TRUE(log->Append(EventOf("third"), false).ok());

  const std::vector<NodeEvent> events = Open()->After(0, 10);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[1].text, "second");
}

}  // namespace
}  // namespace ebb::storage
