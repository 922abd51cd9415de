// A trace of any length streams in constant memory.
//
// A few hundred MB in the daily tests; EBB_TRACE_STREAM_BYTES makes it as long as wanted, and
// tests/soak.sh runs it with 10 GB.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "base/units.h"
#include "env/trace/open_stream.h"
#include "env/trace/trace_profile.h"
#include "fmt/format.h"
#include "gtest/gtest.h"

namespace ebb::env {
namespace {

// What the issue allows for reading, and as much again for the profile's own tables.
constexpr uint64_t kReadingBytesMax = 64 * kMiB;

uint64_t StreamBytes() {
  const char* text = std::getenv("EBB_TRACE_STREAM_BYTES");
  return text == nullptr ? 300'000'000 : std::strtoull(text, nullptr, 10);
}

uint64_t ResidentBytes() {
  uint64_t size_pages = 0;
  uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> size_pages >> resident_pages;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// A trace that is made while it is read: `make(number)` is its entry number so many.
template <typename Make>
class GeneratedTrace final : public ByteStream::Source {
 public:
  GeneratedTrace(uint64_t bytes_total, Make make)
      : bytes_left_(bytes_total), make_(std::move(make)) {}

  absl::StatusOr<size_t> Read(char* to, size_t bytes_max) override {
    size_t done = 0;
    while (done < bytes_max) {
      if (used_ == entry_.size()) {
        if (bytes_left_ == 0) break;
        entry_ = make_(number_++);
        used_ = 0;
        bytes_left_ -= std::min<uint64_t>(bytes_left_, entry_.size());
      }
      const size_t bytes = std::min(bytes_max - done, entry_.size() - used_);
      std::memcpy(to + done, entry_.data() + used_, bytes);
      used_ += bytes;
      done += bytes;
    }
    return done;
  }

 private:
  uint64_t bytes_left_;
  Make make_;
  uint64_t number_ = 0;
  std::string entry_;
  size_t used_ = 0;
};

template <typename Make>
std::unique_ptr<TraceSource> Generated(std::string_view format, Make make) {
  std::vector<std::unique_ptr<ByteStream>> streams;
  streams.push_back(*ByteStream::Over(
      std::make_unique<GeneratedTrace<Make>>(StreamBytes(), std::move(make)), "generated", 0));
  return *OpenStreams(std::move(streams), **FindFormat(format), {});
}

// Reads `source` to its end and returns how much larger the process was at most.
uint64_t GrowthWhileReading(TraceSource& source) {
  const uint64_t before = ResidentBytes();
  uint64_t most = before;
  trace::TraceRecord record;
  for (uint64_t count = 0;; ++count) {
    const absl::StatusOr<bool> more = source.Next(&record);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) return most - before;
    if (count % 100'000 == 0) most = std::max(most, ResidentBytes());
  }
}

TEST(BoundedMemoryTest, ALongTextStreamsInConstantMemory) {
  auto source = Generated("mqsim", [](uint64_t number) {
    return fmt::format("{} {} {} 8 {}\n", number * 1000, number % 7, number * 977 % (1ULL << 40),
                       number & 1);
  });

  const uint64_t growth = GrowthWhileReading(*source);

  EXPECT_LT(growth, kReadingBytesMax);
  EXPECT_GT(source->counts().records, StreamBytes() / 64);
  EXPECT_EQ(source->counts().broken, 0U);
}

TEST(BoundedMemoryTest, ALongBinaryTraceStreamsInConstantMemory) {
  auto source = Generated("vscsi1", [](uint64_t number) {
    std::string bytes(32, '\0');
    const uint64_t sector = number * 977 % (1ULL << 40);
    bytes[4] = 0x10;
    bytes[12] = 0x28;
    bytes[15] = 1;
    std::memcpy(&bytes[16], &sector, sizeof sector);
    std::memcpy(&bytes[24], &number, sizeof number);
    return bytes;
  });

  const uint64_t growth = GrowthWhileReading(*source);

  EXPECT_LT(growth, kReadingBytesMax);
  EXPECT_EQ(source->counts().records, (StreamBytes() + 31) / 32);
}

// The profile needs tables of blocks; they have a bound too, however many blocks there are.
TEST(BoundedMemoryTest, AProfileOfEverNewBlocksIsBounded) {
  TraceProfiler profiler({.format = "made"});
  const uint64_t before = ResidentBytes();
  uint64_t most = before;
  const uint64_t blocks = std::max<uint64_t>(StreamBytes() / 30, 8'000'000);
  for (uint64_t i = 0; i < blocks; ++i) {
    profiler.Add({.time_ns = i, .op = trace::TraceOp::kWrite, .offset = i * 4096, .bytes = 4096});
    if (i % 100'000 == 0) most = std::max(most, ResidentBytes());
  }
  const TraceProfile profile = profiler.Finish();

  EXPECT_LT(most - before, 512 * kMiB);
  EXPECT_FALSE(profile.blocks_exact);
  EXPECT_NEAR(profile.footprint_blocks / static_cast<double>(blocks), 1, 0.01);
  EXPECT_EQ(profile.reuse_share, 0);
}

}  // namespace
}  // namespace ebb::env
