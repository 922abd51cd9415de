// The asynchronous face of a volume: what it answers at once, and that nothing is lost or mixed up
// while much is in flight.
#include "storage-backend/volume/volume_queue.h"

#include <cstring>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/units.h"
#include "fmt/format.h"
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

// A request with its memory, and what a read must find.
struct Job {
  Request request;
  AlignedBuffer memory;
  uint64_t block = 0;
  uint64_t count = 0;
  std::vector<uint64_t> expected;
};

class Player {
 public:
  Player(Volume& volume, uint64_t seed)
      : rng_(seed), queue_(volume.MakeQueue(32)), versions_(kBlocks, 0) {}

  void Play(int requests) {
    for (int i = 0; i < requests; ++i) {
      while (queue_->in_flight() == queue_->depth() || !SubmitOne()) Reap(1);
      if (rng_.Chance(0.2)) Reap(0);
    }
    Reap(queue_->in_flight());
    EXPECT_EQ(queue_->in_flight(), 0U);
  }
  const std::vector<uint64_t>& versions() const { return versions_; }

 private:
  // False when the blocks it fell upon are busy: requests in flight have no order.
  bool SubmitOne() {
    auto job = std::make_unique<Job>();
    job->block = rng_.Below(kBlocks);
    job->count =
        1 + rng_.Below(std::min<uint64_t>(kBlocks - job->block, rng_.Chance(0.2) ? 40 : 3));
    for (uint64_t b = job->block; b < job->block + job->count; ++b) {
      if (busy_.contains(b)) return false;
    }
    Request& request = job->request;
    request.offset = job->block * kBlockBytes;
    request.bytes = job->count * kBlockBytes;
    request.context = job.get();
    request.fua = rng_.Chance(0.05);
    job->memory = AlignedBuffer(request.bytes);
    request.data = job->memory.data();
    const uint64_t kind = rng_.Below(20);
    if (kind < 9) {
      request.kind = Request::Kind::kRead;
      for (uint64_t b = job->block; b < job->block + job->count; ++b) {
        job->expected.push_back(versions_[b]);
      }
    } else if (kind < 17) {
      request.kind = Request::Kind::kWrite;
      for (uint64_t i = 0; i < job->count; ++i) {
        versions_[job->block + i] = ++version_;
        const AlignedBuffer block = MakeBlock(job->block + i, version_);
        std::memcpy(job->memory.data() + i * kBlockBytes, block.data(), kBlockBytes);
      }
    } else if (kind < 19) {
      request.kind = kind == 17 ? Request::Kind::kTrim : Request::Kind::kWriteZeroes;
      std::fill_n(versions_.begin() + static_cast<std::ptrdiff_t>(job->block), job->count, 0);
    } else {
      request.kind = Request::Kind::kFlush;
    }
    for (uint64_t b = job->block; b < job->block + job->count; ++b) busy_.insert(b);
    queue_->Submit(&request);
    jobs_[job.get()] = std::move(job);
    return true;
  }

  void Reap(size_t min_completions) {
    std::vector<Request*> done;
    queue_->Reap(min_completions, done);
    ASSERT_GE(done.size(), min_completions);
    for (Request* request : done) {
      auto* const job = static_cast<Job*>(request->context);
      EXPECT_TRUE(request->status.ok()) << request->status;
      for (uint64_t i = 0; i < job->expected.size(); ++i) {
        EXPECT_EQ(VersionOf(job->block + i, job->memory.span(i * kBlockBytes, kBlockBytes)),
                  job->expected[i])
            << "block " << job->block + i;
      }
      for (uint64_t b = job->block; b < job->block + job->count; ++b) busy_.erase(b);
      ASSERT_EQ(jobs_.erase(job), 1U) << "a request came back twice";
    }
  }

  Rng rng_;
  std::unique_ptr<RequestQueue> queue_;
  std::vector<uint64_t> versions_;
  uint64_t version_ = 0;
  std::set<uint64_t> busy_;
  std::map<Job*, std::unique_ptr<Job>> jobs_;
};

TEST(VolumeQueueTest, RandomRequestsInFlightEqualTheModel) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    TestNode node(SmallNode(), RealClock());
    ASSERT_TRUE(node.Open().ok());
    Player player(node.volume(), seed);

    player.Play(3000);

    AlignedBuffer block(kBlockBytes);
    for (uint64_t b = 0; b < kBlocks; ++b) {
      ASSERT_TRUE(node.volume().Read(b * kBlockBytes, block.span()).ok());
      ASSERT_EQ(VersionOf(b, block.span()), player.versions()[b]) << "block " << b;
    }
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
