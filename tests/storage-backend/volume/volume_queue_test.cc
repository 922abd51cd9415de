// The asynchronous face of a volume: what it answers at once, and that nothing is lost or mixed up
// while much is in flight.
#include "storage-backend/volume/volume_queue.h"

#include <vector>

#include <gtest/gtest.h>

#include "fmt/format.h"
#include "tests/storage-backend/volume/queue_player.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kBlocks = 512;

TestNodeOptions SmallNode() {
  // A log of an eighth of the volume: writes meet a full log, reads all three places.
  return {.volume_bytes = kBlocks * kBlockBytes,
          .cache_bytes = (2 + 8 * 16) * kBlockBytes,
          .segment_bytes = 8 * kBlockBytes,
          .capacity_bytes = 16 << 20,
          .fake_tier = false,
          .background_threads = true,
          .read_cache_bytes = 1 << 20};
}

TEST(VolumeQueueTest, RandomRequestsInFlightEqualTheModel) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    TestNode node(SmallNode(), RealClock());
    ASSERT_TRUE(node.Open().ok());
    QueuePlayer player(node.volume(), kBlocks, seed);

    player.Play(3000);

    player.VerifyAll(node.volume());
    const VolumeMetrics metrics = node.volume().Metrics();
    EXPECT_GT(metrics.read_blocks_cache, 0U);
    EXPECT_GT(metrics.read_blocks_capacity, 0U);
  }
}

TEST(VolumeQueueTest, HitsAreDoneInsideSubmit) {
  TestNode node({}, RealClock());
  ASSERT_TRUE(node.Open().ok());
  const auto queue = node.volume().MakeQueue(4);
  AlignedBuffer block = MakeBlock(3, 7);
  Request write{.kind = Request::Kind::kWrite,
                .offset = 3 * kBlockBytes,
                .bytes = kBlockBytes,
                .data = block.data()};
  AlignedBuffer out(kBlockBytes);
  Request read = write;
  read.kind = Request::Kind::kRead;
  read.data = out.data();

  queue->Submit(&write);
  queue->Submit(&read);

  EXPECT_EQ(VersionOf(3, out.span()), 7U) << "the data is there before Reap";
  std::vector<Request*> done;
  queue->Reap(0, done);
  EXPECT_EQ(done, (std::vector<Request*>{&write, &read}));
  EXPECT_EQ(queue->in_flight(), 0U);
}

TEST(VolumeQueueTest, ErrorsComeBackWithTheirRequest) {
  TestNode node({}, RealClock());
  ASSERT_TRUE(node.Open().ok());
  const auto queue = node.volume().MakeQueue(4);
  AlignedBuffer block(kBlockBytes);
  Request beyond{.kind = Request::Kind::kRead,
                 .offset = node.volume().volume_bytes(),
                 .bytes = kBlockBytes,
                 .data = block.data()};
  Request partial{.kind = Request::Kind::kWrite, .offset = 100, .bytes = 50, .data = block.data()};

  queue->Submit(&beyond);
  queue->Submit(&partial);
  std::vector<Request*> done;
  queue->Reap(2, done);

  EXPECT_EQ(beyond.status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(partial.status.ok()) << partial.status;
}

// Goal: a queue that goes away leaves no request behind that still writes into the client's memory.
TEST(VolumeQueueTest, DestructionWaitsForWhatIsInFlight) {
  TestNode node(SmallNode(), RealClock());
  ASSERT_TRUE(node.Open().ok());
  struct Job {
    Request request;
    AlignedBuffer memory;
  };
  std::vector<Job> jobs(16);
  auto queue = node.volume().MakeQueue(jobs.size());
  for (Job& job : jobs) {
    job.memory = AlignedBuffer(kBlockBytes);
    job.request = {.kind = Request::Kind::kWrite,
                   .fua = true,
                   .bytes = kBlockBytes,
                   .data = job.memory.data(),
                   .status = absl::UnknownError("not done")};
    queue->Submit(&job.request);
  }

  queue = nullptr;

  for (const Job& job : jobs) EXPECT_TRUE(job.request.status.ok()) << job.request.status;
}

}  // namespace
}  // namespace ebb::storage
