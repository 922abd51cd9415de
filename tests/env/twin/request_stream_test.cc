#include "env/twin/request_stream.h"

#include <cmath>

#include "tests/env/twin/twin_testing.h"

namespace ebb::twin {
namespace {

using trace::TraceOp;

TEST(RequestStreamTest, NumbersPagesDenselyAndKeepsPlaces) {
  const auto load = MakeLoad({{.time_ns = 1, .offset = 300 * kMiB, .bytes = 4096},
                              {.time_ns = 2, .offset = 300 * kMiB + 8192, .bytes = 4096},
                              {.time_ns = 3, .offset = 0, .bytes = 4096}},
                             kGiB);

  ASSERT_EQ(load.requests().size(), 3u);
  EXPECT_EQ(load.page_count(), 2u);
  EXPECT_EQ(load.requests()[1].first_block, load.requests()[0].first_block + 2);
  EXPECT_EQ(load.PlaceOf(load.requests()[1].first_block), 300 * kMiB / 4096 + 2);
  EXPECT_EQ(load.PlaceOf(load.requests()[2].first_block), 0u);
}

TEST(RequestStreamTest, CutsARequestAtPages) {
  const auto load = MakeLoad(
      {{.op = TraceOp::kWrite, .fua = true, .offset = 512 * kKiB - 4096, .bytes = 12'288}}, kGiB);

  ASSERT_EQ(load.requests().size(), 2u);
  EXPECT_EQ(load.request_count(), 1u);
  EXPECT_EQ(load.requests()[0].blocks, 1u);
  EXPECT_EQ(load.requests()[0].bytes, 12'288u);
  EXPECT_EQ(load.requests()[0].flags, Request::kContinues | Request::kFua);
  EXPECT_EQ(load.requests()[1].blocks, 2u);
  EXPECT_EQ(load.requests()[1].flags, 0);
  EXPECT_EQ(load.NextPage(0), 1u);
}

TEST(RequestStreamTest, MarksPartialBlocksOfWritesOnly) {
  const auto load = MakeLoad({{.op = TraceOp::kWrite, .offset = 512, .bytes = 4096},
                              {.op = TraceOp::kRead, .offset = 512, .bytes = 512}},
                             kGiB);

  EXPECT_EQ(load.requests()[0].flags, Request::kPartialFirst | Request::kPartialLast);
  EXPECT_EQ(load.requests()[0].blocks, 2u);
  EXPECT_EQ(load.requests()[1].flags, 0);
}

TEST(RequestStreamTest, ATrimOfUntouchedPagesIsNothing) {
  const auto load = MakeLoad({{.op = TraceOp::kWrite, .offset = 0, .bytes = 4096},
                              {.op = TraceOp::kTrim, .offset = 0, .bytes = 512 * kMiB}},
                             kGiB);

  ASSERT_EQ(load.requests().size(), 2u);
  EXPECT_EQ(load.requests()[1].blocks, kPageBlocks);
}

TEST(RequestStreamTest, ContentWrittenOnceHasNoNumber) {
  const auto load =
      MakeLoad({{.op = TraceOp::kWrite, .offset = 0, .bytes = 8192, .fingerprints = {11, 22}},
                {.op = TraceOp::kWrite, .offset = 8192, .bytes = 8192, .fingerprints = {22, 33}}},
               kGiB);

  EXPECT_EQ(load.content_count(), 1u);
  EXPECT_EQ(std::vector<uint32_t>(load.contents().begin(), load.contents().end()),
            (std::vector<uint32_t>{0, 1, 1, 0}));
}

TEST(RequestStreamTest, ASampleHasItsShareOfPagesAndTraffic) {
  LoadSpec spec = SmallLoad();
  spec.seconds = 60;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);

  const RequestStream sample = load.Sample(8, 1);

  EXPECT_NEAR(sample.page_count() * 8.0, load.page_count(), 8);
  EXPECT_NEAR(static_cast<double>(sample.request_count()) * 8,
              static_cast<double>(load.request_count()),
              0.02 * static_cast<double>(load.request_count()));
  const auto reads = [](const RequestStream& stream) {
    double count = 0;
    for (const Request& request : stream.requests()) {
      count += request.kind == RequestKind::kRead ? 1 : 0;
    }
    return count / static_cast<double>(stream.request_count());
  };
  EXPECT_NEAR(reads(sample), reads(load), 0.02);
  const auto rate = [](const RequestStream& stream) {
    return static_cast<double>(stream.request_count()) / static_cast<double>(stream.duration_ns());
  };
  EXPECT_NEAR(rate(sample), rate(load), 0.001 * rate(load));
}

TEST(RequestStreamTest, AScanOfTheLoadIsAScanOfTheSample) {
  std::vector<trace::TraceRecord> records;
  for (uint64_t i = 0; i < 4'000; ++i) {
    records.push_back({.time_ns = i * 1'000, .offset = i * 64 * kKiB, .bytes = 64 * kKiB});
  }
  const RequestStream load = MakeLoad(records, 512 * kMiB);

  const RequestStream sample = load.Sample(4, 9);

  ASSERT_GT(sample.requests().size(), 900u);
  uint64_t end = 0;
  for (const Request& request : sample.requests()) {
    EXPECT_EQ(sample.PlaceOf(request.first_block), end);
    end = sample.PlaceOf(request.first_block) + request.blocks;
  }
}

TEST(RequestStreamTest, ASampleKnowsDuplicatesOfWhatItLeftOut) {
  std::vector<trace::TraceRecord> records;
  // The same content in every page: whatever is sampled, all but one of the load's writes repeat.
  for (uint64_t i = 0; i < 64; ++i) {
    records.push_back({.time_ns = i,
                       .op = TraceOp::kWrite,
                       .offset = i * 512 * kKiB,
                       .bytes = 4096,
                       .fingerprints = {5}});
  }
  const RequestStream load = MakeLoad(records, 512 * kMiB);

  const RequestStream sample = load.Sample(8, 3);

  ASSERT_EQ(sample.contents().size(), 8u);
  const bool has_first = sample.contents()[0] == 1;
  EXPECT_TRUE(has_first || sample.contents()[0] == (1 | RequestStream::kSeenOutside));
  EXPECT_EQ(sample.contents()[1], 1u);
}

TEST(RequestStreamTest, SamplingIsDeterministicBySeed) {
  const RequestStream load = MakeLoad(SmallLoad(), 512 * kMiB);

  const RequestStream a = load.Sample(10, 5);
  const RequestStream b = load.Sample(10, 5);

  ASSERT_EQ(a.requests().size(), b.requests().size());
  for (size_t i = 0; i < a.requests().size(); ++i) {
    ASSERT_EQ(a.requests()[i].first_block, b.requests()[i].first_block);
    ASSERT_EQ(a.requests()[i].time_ns, b.requests()[i].time_ns);
  }
}

TEST(LoadGeneratorTest, MakesWhatWasAskedFor) {
  LoadSpec spec = SmallLoad();
  spec.seconds = 20;
  spec.read_share = 0.25;
  spec.duplicate_share = 0.5;
  spec.flushes_per_write = 0.1;

  const RequestStream load = MakeLoad(spec, 512 * kMiB);

  double reads = 0;
  double writes = 0;
  double flushes = 0;
  for (const Request& request : load.requests()) {
    reads += request.kind == RequestKind::kRead ? 1 : 0;
    writes += request.kind == RequestKind::kWrite ? 1 : 0;
    flushes += request.kind == RequestKind::kFlush ? 1 : 0;
  }
  EXPECT_NEAR(reads + writes, 40'000, 1'000);
  EXPECT_NEAR(reads / (reads + writes), 0.25, 0.01);
  EXPECT_NEAR(flushes / writes, 0.1, 0.01);
  double shared = 0;
  for (const uint32_t content : load.contents()) shared += content != 0 ? 1 : 0;
  EXPECT_NEAR(shared / static_cast<double>(load.contents().size()), 0.5, 0.02);
}

TEST(LoadGeneratorTest, ZipfHitsAsTheLawSays) {
  LoadSpec spec = SmallLoad();
  spec.seconds = 50;
  spec.zipf_skew = 1.0;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);

  std::vector<uint64_t> uses(load.block_count(), 0);
  for (const Request& request : load.requests()) ++uses[request.first_block];
  std::sort(uses.rbegin(), uses.rend());
  double top = 0;
  for (size_t i = 0; i < 655; ++i) top += static_cast<double>(uses[i]);

  // The top hundredth of n ranks has ln(n / 100) / ln(n) of the uses.
  const double n = 256.0 * 256;
  EXPECT_NEAR(top / static_cast<double>(load.request_count()), std::log(n / 100) / std::log(n),
              0.03);
}

TEST(LoadGeneratorTest, RefusesNonsense) {
  LoadSpec spec = SmallLoad();
  spec.working_set_bytes = 2 * kGiB;
  EXPECT_FALSE(GenerateLoad(spec, kGiB).ok());
  spec = SmallLoad();
  spec.read_share = 1.5;
  EXPECT_FALSE(GenerateLoad(spec, kGiB).ok());
  spec = SmallLoad();
  spec.ops_per_s = 0;
  EXPECT_FALSE(GenerateLoad(spec, kGiB).ok());
}

TEST(LoadGeneratorTest, BurstsComeAtTheirDuty) {
  LoadSpec spec = SmallLoad();
  spec.burst_duty = 0.25;
  const RequestStream load = MakeLoad(spec, 512 * kMiB);

  for (const Request& request : load.requests()) {
    EXPECT_LT(static_cast<double>(request.time_ns % kNsPerS), 0.251e9);
  }
  EXPECT_NEAR(static_cast<double>(load.request_count()), 20'000, 600);
}

}  // namespace
}  // namespace ebb::twin
