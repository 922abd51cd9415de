#include "env/twin/request_stream.h"

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

TEST(RequestStreamTest, MarksPartialBlocks) {
  const auto load = MakeLoad({{.op = TraceOp::kWrite, .offset = 512, .bytes = 4096},
                              {.op = TraceOp::kRead, .offset = 512, .bytes = 512},
                              {.op = TraceOp::kRead, .offset = 4096, .bytes = 4096},
                              {.op = TraceOp::kTrim, .offset = 0, .bytes = 6144}},
                             kGiB);

  EXPECT_EQ(load.requests()[0].flags, Request::kPartialFirst | Request::kPartialLast);
  EXPECT_EQ(load.requests()[0].blocks, 2u);
  EXPECT_EQ(load.requests()[1].flags, Request::kPartialFirst | Request::kPartialLast);
  EXPECT_EQ(load.requests()[2].flags, 0);
  EXPECT_EQ(load.requests()[3].flags, 0) << "advice";
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
  env::SynthPhase spec = SmallLoad();
  spec.duration_ns = 60 * kNsPerS;
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

TEST(SynthesiseLoadTest, IsTheSynthesisedStream) {
  env::SynthPhase phase = SmallLoad();
  phase.duplicate_share = 0.5;
  phase.flush_every = 10;
  const auto source = env::MakeSynthSource({.seed = 7, .phases = {phase}});
  ASSERT_TRUE(source.ok());
  const auto load = SynthesiseLoad({.seed = 7, .phases = {phase}}, 512 * kMiB);
  ASSERT_TRUE(load.ok()) << load.status();

  trace::TraceRecord record;
  for (const Request& request : load->requests()) {
    ASSERT_TRUE(*(*source)->Next(&record));
    EXPECT_EQ(request.time_ns, record.time_ns);
    EXPECT_EQ(request.kind == RequestKind::kRead, record.op == trace::TraceOp::kRead);
    if (request.kind == RequestKind::kFlush) continue;
    ASSERT_EQ(load->PlaceOf(request.first_block) * kBlockBytes, record.offset);
    EXPECT_EQ(request.compressed_per_mille, record.compressed_per_mille);
  }
  EXPECT_FALSE(*(*source)->Next(&record));
  EXPECT_EQ(load->duration_ns(), 10 * kNsPerS) << "also where the last request came earlier";
  EXPECT_GT(load->content_count(), 1'000u);
}

TEST(SynthesiseLoadTest, EndsWithItsLastRequestWhereTheirNumberIsGiven) {
  env::SynthPhase phase = SmallLoad();
  const auto load = SynthesiseLoad({.requests_max = 100, .phases = {phase}}, 512 * kMiB);
  ASSERT_TRUE(load.ok()) << load.status();

  EXPECT_EQ(load->request_count(), 100u);
  EXPECT_EQ(load->duration_ns(), load->requests().back().time_ns + 1);
}

TEST(SynthesiseLoadTest, RefusesNonsense) {
  env::SynthPhase phase = SmallLoad();
  phase.working_set_bytes = 2 * kGiB;
  EXPECT_FALSE(SynthesiseLoad({.phases = {phase}}, kGiB).ok());
  phase.working_set_bytes = 800 * kMiB;
  phase.offset_bytes = 300 * kMiB;
  EXPECT_FALSE(SynthesiseLoad({.phases = {phase}}, kGiB).ok());
  phase = SmallLoad();
  phase.read_share = 1.5;
  EXPECT_FALSE(SynthesiseLoad({.phases = {phase}}, kGiB).ok());
}

}  // namespace
}  // namespace ebb::twin
