#include "tests/storage-backend/volume/queue_player.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <gtest/gtest.h>

#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

constexpr size_t kDepth = 32;

}  // namespace

QueuePlayer::QueuePlayer(Volume& volume, uint64_t block_count, uint64_t seed)
    : block_count_(block_count),
      rng_(seed),
      queue_(volume.MakeQueue(kDepth)),
      versions_(block_count, 0) {}

void QueuePlayer::Play(int requests) {
  for (int i = 0; i < requests; ++i) {
    while (queue_->in_flight() == queue_->depth() || !SubmitOne()) Reap(1);
    if (rng_.Chance(0.2)) Reap(0);
  }
  Reap(queue_->in_flight());
  EXPECT_EQ(queue_->in_flight(), 0U);
}

void QueuePlayer::VerifyAll(Volume& volume) const {
  AlignedBuffer block(kBlockBytes);
  for (uint64_t b = 0; b < block_count_; ++b) {
    ASSERT_TRUE(volume.Read(b * kBlockBytes, block.span()).ok());
    ASSERT_EQ(VersionOf(b, block.span()), versions_[b]) << "block " << b;
  }
}

bool QueuePlayer::SubmitOne() {
  auto job = std::make_unique<Job>();
  job->block = rng_.Below(block_count_);
  job->count =
      1 + rng_.Below(std::min<uint64_t>(block_count_ - job->block, rng_.Chance(0.2) ? 40 : 3));
  for (uint64_t b = job->block; b < job->block + job->count; ++b) {
    if (busy_.contains(b)) return false;
  }
  job->request.context = job.get();
  Fill(*job);
  for (uint64_t b = job->block; b < job->block + job->count; ++b) busy_.insert(b);
  queue_->Submit(&job->request);
  jobs_[job.get()] = std::move(job);
  return true;
}

void QueuePlayer::Fill(Job& job) {
  Request& request = job.request;
  request.offset = job.block * kBlockBytes;
  request.bytes = job.count * kBlockBytes;
  request.fua = rng_.Chance(0.05);
  job.memory = AlignedBuffer(request.bytes);
  request.data = job.memory.data();
  const uint64_t kind = rng_.Below(20);
  if (kind < 9) {
    request.kind = Request::Kind::kRead;
    const auto first = versions_.begin() + static_cast<std::ptrdiff_t>(job.block);
    job.expected.assign(first, first + static_cast<std::ptrdiff_t>(job.count));
  } else if (kind < 17) {
    request.kind = Request::Kind::kWrite;
    for (uint64_t i = 0; i < job.count; ++i) {
      versions_[job.block + i] = ++version_;
      const AlignedBuffer block = MakeBlock(job.block + i, version_);
      std::memcpy(job.memory.data() + i * kBlockBytes, block.data(), kBlockBytes);
    }
  } else if (kind < 19) {
    request.kind = kind == 17 ? Request::Kind::kTrim : Request::Kind::kWriteZeroes;
    std::fill_n(versions_.begin() + static_cast<std::ptrdiff_t>(job.block), job.count, 0);
  } else {
    request.kind = Request::Kind::kFlush;
  }
}

void QueuePlayer::Reap(size_t min_completions) {
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

}  // namespace ebb::storage
