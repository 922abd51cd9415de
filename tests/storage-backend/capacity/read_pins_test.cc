#include "storage-backend/capacity/read_pins.h"

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ebb::storage {
namespace {

TEST(ReadPinsTest, DrainsAtOnceWithoutReaders) {
  ReadPins pins;
  EXPECT_TRUE(pins.Drained(pins.epoch()));
  EXPECT_TRUE(pins.Drained(pins.epoch()));
}

TEST(ReadPinsTest, WaitsForAReaderThatCameBefore) {
  ReadPins pins;
  uint64_t tag = 0;
  {
    const ReadPins::Pin pin = pins.Enter();
    tag = pins.epoch();
    EXPECT_FALSE(pins.Drained(tag));
    EXPECT_FALSE(pins.Drained(tag));
  }
  EXPECT_TRUE(pins.Drained(tag));
}

// Goal: a stream of readers without a gap must not hold freed segments for ever.
TEST(ReadPinsTest, LaterReadersDoNotHoldWhatWasFreedBeforeThem) {
  ReadPins pins;
  std::unique_ptr<ReadPins::Pin> first(new ReadPins::Pin(pins.Enter()));
  const uint64_t tag = pins.epoch();
  EXPECT_FALSE(pins.Drained(tag));  // moves the epoch on as far as it can
  const ReadPins::Pin later = pins.Enter();

  first.reset();

  EXPECT_TRUE(pins.Drained(tag));
  EXPECT_FALSE(pins.Drained(pins.epoch()));
}

// Goal: no reader ever sees a slot that the writer has reused.
// Method: the writer publishes a slot, retires the old one and scribbles on it once drained;
// readers pin, look the slot up and read it many times. Most telling under tsan.
TEST(ReadPinsTest, ReadersNeverSeeReuse) {
  constexpr uint64_t kScribble = ~uint64_t{0};
  ReadPins pins;
  std::array<std::atomic<uint64_t>, 3> slots{};
  std::atomic<size_t> published = 0;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> wrong = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const ReadPins::Pin pin = pins.Enter();
        const size_t slot = published.load();
        for (int look = 0; look < 20; ++look) {
          if (slots[slot].load(std::memory_order_relaxed) == kScribble) ++wrong;
        }
      }
    });
  }
  for (uint64_t round = 1; round < 3000; ++round) {
    const size_t old = published.load();
    const size_t next = (old + 1) % slots.size();
    slots[next].store(round, std::memory_order_relaxed);
    published.store(next);
    const uint64_t tag = pins.epoch();
    while (!pins.Drained(tag)) std::this_thread::yield();
    slots[old].store(kScribble, std::memory_order_relaxed);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace ebb::storage
