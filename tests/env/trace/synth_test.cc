// Synthesised loads have the properties that were asked for.
#include "env/trace/synth.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/units.h"
#include "env/trace/trace_profile.h"
#include "env/trace/zipf.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/env/trace/trace_source_test_util.h"

namespace ebb::env {
namespace {

using testing::HasSubstr;
using trace::TraceOp;
using trace::TraceRecord;

std::vector<TraceRecord> Records(const SynthOptions& options) {
  auto source = MakeSynthSource(options);
  EXPECT_TRUE(source.ok()) << source.status();
  const ReadResult result = ReadAll(**source);
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ((*source)->progress(), 1);
  return result.records;
}

TraceProfile Profile(const SynthOptions& options) {
  auto source = MakeSynthSource(options);
  EXPECT_TRUE(source.ok()) << source.status();
  return *ProfileTrace(**source);
}

SynthPhase PhaseOf(std::string_view parameters) {
  SynthPhase phase;
  const absl::Status status = SetSynthParameters(parameters, &phase);
  EXPECT_TRUE(status.ok()) << status;
  return phase;
}

TEST(SynthTest, TheSameSeedGivesTheSameStreamAndAnotherOneAnother) {
  SynthOptions options{.seed = 3, .requests_max = 5000};
  options.phases = {PhaseOf("zipf=0.9,duplicate=0.3,compressible=0.5,flush-every=10,block=4k/64k")};
  const std::vector<TraceRecord> first = Records(options);

  EXPECT_EQ(Records(options), first);
  options.seed = 4;
  EXPECT_NE(Records(options), first);
}

TEST(SynthTest, TheStreamHasTheSharesAskedFor) {
  const TraceProfile profile =
      Profile({.requests_max = 200'000,
               .phases = {PhaseOf("read=0.6,random=0.75,block=4k:3/16k:1,duplicate=0.25,"
                                  "compressible=0.4,flush-every=100,working-set=256M")}});

  EXPECT_NEAR(*profile.read_share, 0.6, 0.01);
  EXPECT_NEAR(profile.sequential_share, 0.25, 0.01);
  EXPECT_EQ(profile.top_sizes[0].first, 4096U);
  EXPECT_NEAR(profile.top_sizes[0].second, 0.75, 0.01);
  EXPECT_NEAR(profile.duplicate_share, 0.25, 0.01);
  EXPECT_NEAR(*profile.compressed_share, 0.6 + 0.4 * 0.344, 0.01);
  EXPECT_NEAR(static_cast<double>(profile.flushes), static_cast<double>(profile.writes) / 100, 1);
  EXPECT_LE(profile.needed_bytes, 256 * kMiB);
  EXPECT_EQ(profile.unaligned_share, 0);
}

TEST(SynthTest, BurstsGapsAndOutstandingRequestsMakeTheTimes) {
  const std::vector<TraceRecord> records = Records(
      {.requests_max = 12, .phases = {PhaseOf("burst=6,gap=10ms,outstanding=4,service=1ms")}});
  ASSERT_EQ(records.size(), 12U);
  const std::vector<uint64_t> times_ms = {0, 0, 0, 0, 1, 1, 11, 11, 11, 11, 12, 12};
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(records[i].time_ns, times_ms[i] * kNsPerMs) << i;
}

TEST(SynthTest, ARateIsAPoissonStreamWithinItsDuty) {
  const std::vector<TraceRecord> records =
      Records({.duration_ns = 50 * kNsPerS,
               .phases = {PhaseOf("duration=50s,rate=2000,duty=0.25,period=2s")}});

  EXPECT_NEAR(static_cast<double>(records.size()), 100'000, 1'500);
  // Requests in 1 ms slots within the duty: as many squared deviations as requests.
  std::map<uint64_t, double> slots;
  for (const TraceRecord& record : records) {
    ASSERT_LT(record.time_ns % (2 * kNsPerS), kNsPerS / 2);
    ++slots[record.time_ns / kNsPerMs];
  }
  const double count = 12'500;
  const double mean = static_cast<double>(records.size()) / count;
  double squares = (count - static_cast<double>(slots.size())) * mean * mean;
  for (const auto& [slot, requests] : slots) squares += (requests - mean) * (requests - mean);
  EXPECT_NEAR(squares / count / mean, 1, 0.05);
}

TEST(SynthTest, ARateBeginsAndEndsWithItsPhase) {
  const auto records = Records({.duration_ns = 60 * kNsPerS,
                                .phases = {PhaseOf("duration=10s,rate=0.01,read=1"),
                                           PhaseOf("duration=10s,rate=500,read=0")}});
  std::map<uint64_t, double> by_phase;
  for (const TraceRecord& record : records) ++by_phase[record.time_ns / (10 * kNsPerS)];

  for (const uint64_t slow : {0, 2, 4}) EXPECT_LE(by_phase[slow], 3) << slow;
  for (const uint64_t fast : {1, 3, 5}) EXPECT_NEAR(by_phase[fast], 5'000, 300) << fast;
}

TEST(SynthTest, StreamsGoOnUndisturbedByRandomRequests) {
  const auto records =
      Records({.requests_max = 8'000,
               .phases = {PhaseOf("block=64k,random=0.5,streams=4,working-set=1G")}});
  // Every stream's own next place, from a quarter of the working set to the next.
  std::map<uint64_t, int> next = {{0, 0}, {kGiB / 4, 0}, {kGiB / 2, 0}, {3 * kGiB / 4, 0}};
  for (const TraceRecord& record : records) {
    const auto found = next.find(record.offset);
    if (found == next.end()) continue;
    const int seen = found->second + 1;
    next.erase(found);
    next[record.offset + record.bytes] = seen;
  }
  ASSERT_EQ(next.size(), 4U);
  for (const auto& [offset, seen] : next) EXPECT_NEAR(seen, 1'000, 150) << offset;
}

TEST(SynthTest, WritesMayHaveSizesOfTheirOwnAndPlacesAreMultiplesOfTheSmallest) {
  const auto records = Records(
      {.requests_max = 2'000, .phases = {PhaseOf("read=0.5,block=8k,write-block=16k:1/64k:1")}});
  std::map<uint64_t, int> writes;
  for (const TraceRecord& record : records) {
    EXPECT_EQ(record.offset % 8192, 0U);
    EXPECT_TRUE(record.op == TraceOp::kWrite || record.bytes == 8192U);
    if (record.op == TraceOp::kWrite) ++writes[record.bytes];
  }
  ASSERT_EQ(writes.size(), 2U);
  EXPECT_NEAR(writes[16 << 10], 500, 80);
  EXPECT_NEAR(writes[64 << 10], 500, 80);
}

TEST(SynthTest, ASkewMakesHotPlacesAndDriftMovesThem) {
  auto hot_blocks = [](const std::vector<TraceRecord>& records, size_t begin, size_t end) {
    std::map<uint64_t, int> counts;
    for (size_t i = begin; i < end; ++i) ++counts[records[i].offset];
    std::set<uint64_t> hot;
    for (const auto& [offset, count] : counts) {
      if (count > 20) hot.insert(offset);
    }
    return hot;
  };
  auto overlap = [](const std::set<uint64_t>& a, const std::set<uint64_t>& b) {
    size_t common = 0;
    for (const uint64_t offset : a) common += b.count(offset);
    return static_cast<double>(common) / static_cast<double>(a.size());
  };
  const std::string base = "zipf=1.1,working-set=64M,gap=1ms,duration=100s";
  const auto still = Records({.duration_ns = 100 * kNsPerS, .phases = {PhaseOf(base)}});
  const auto moving =
      Records({.duration_ns = 100 * kNsPerS, .phases = {PhaseOf(base + ",drift=0.005")}});

  ASSERT_EQ(still.size(), 100'000U);
  EXPECT_GT(overlap(hot_blocks(still, 0, 30'000), hot_blocks(still, 70'000, 100'000)), 0.7);
  EXPECT_LT(overlap(hot_blocks(moving, 0, 30'000), hot_blocks(moving, 70'000, 100'000)), 0.1);
}

TEST(SynthTest, PhasesFollowEachOtherInACircle) {
  const auto records = Records({.duration_ns = 40 * kNsPerS,
                                .phases = {PhaseOf("duration=10s,read=1,gap=10ms"),
                                           PhaseOf("duration=10s,read=0,gap=5ms,offset=1G")}});
  std::map<uint64_t, std::pair<int, int>> by_phase;  // reads, writes
  for (const TraceRecord& record : records) {
    auto& counts = by_phase[record.time_ns / (10 * kNsPerS)];
    ++(record.op == TraceOp::kRead ? counts.first : counts.second);
    EXPECT_EQ(record.offset >= kGiB, record.op == TraceOp::kWrite);
  }
  const std::map<uint64_t, std::pair<int, int>> expected = {
      {0, {1000, 0}}, {1, {0, 2000}}, {2, {1000, 0}}, {3, {0, 2000}}};
  EXPECT_EQ(by_phase, expected);
}

TEST(SynthTest, EveryPresetIsPossibleAndWhatItsNameSays) {
  for (const SynthPreset& preset : SynthPresets()) {
    SCOPED_TRACE(std::string(preset.name));
    const TraceProfile profile =
        Profile({.requests_max = 4000, .phases = {PhaseOf(preset.parameters)}});
    if (preset.name == "iometer-file-server") {
      EXPECT_NEAR(*profile.read_share, 0.8, 0.02);
      EXPECT_EQ(profile.top_sizes[0].first, 4096U);
      EXPECT_NEAR(profile.top_sizes[0].second, 0.6, 0.02);
    }
    if (preset.name == "hcibench-256k-write") {
      EXPECT_EQ(profile.reads, 0U);
      EXPECT_GT(profile.sequential_share, 0.99);
    }
    if (preset.name == "iometer-workstation") {
      EXPECT_NEAR(profile.sequential_share, 0.2, 0.02);
    }
  }
  EXPECT_GE(SynthPresets().size(), 7U);
}

TEST(SynthTest, ImpossibleParametersAreRefusedInWords) {
  SynthPhase phase;
  EXPECT_THAT(std::string(SetSynthParameter("burts", "1", &phase).message()),
              HasSubstr("did you mean 'burst'"));
  EXPECT_FALSE(SetSynthParameters("read", &phase).ok());
  EXPECT_FALSE(SetSynthParameter("read", "much", &phase).ok());
  for (const char* parameters :
       {"read=1.5", "zipf=-1", "burst=0", "outstanding=0", "block=100", "block=0", "working-set=1k",
        "duration=0s", "gap=0s", "duplicate=nan", "drift=-1", "block=4k:-1", "rate=-1", "rate=1e99",
        "duty=0", "duty=1.1", "period=0s", "streams=9999", "write-block=100"}) {
    SCOPED_TRACE(parameters);
    SynthPhase changed;
    const absl::Status set = SetSynthParameters(parameters, &changed);
    EXPECT_FALSE(set.ok() && MakeSynthSource({.phases = {changed}}).ok());
  }
  EXPECT_FALSE(MakeSynthSource({.phases = {}}).ok());
}

TEST(ZipfTest, RanksComeAsOftenAsTheLawSays) {
  for (const double skew : {0.0, 0.5, 1.0, 1.5}) {
    constexpr uint64_t kCount = 1000;
    constexpr int kDraws = 200'000;
    const Zipf zipf(kCount, skew);
    Rng rng(5);
    std::vector<int> counts(kCount);
    for (int i = 0; i < kDraws; ++i) ++counts[zipf.Draw(rng)];
    double weights = 0;
    for (uint64_t rank = 1; rank <= kCount; ++rank) weights += std::pow(rank, -skew);
    for (const uint64_t rank : {0, 1, 2, 9, 99, 999}) {
      const double expected = kDraws * std::pow(static_cast<double>(rank + 1), -skew) / weights;
      EXPECT_NEAR(counts[rank], expected, 5 * std::sqrt(expected) + 1) << skew << " " << rank;
    }
  }
}

}  // namespace
}  // namespace ebb::env
