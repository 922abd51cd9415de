// Series and their roll-ups, on RocksDB and in memory.
#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/history/history.h"
#include "engine/history/roll_up.h"
#include "tests/engine/history/watched_history.h"

namespace ebb::engine {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kEverything = 100'000'000;

SeriesPoint PointAt(int64_t wall_ms, double read_iops = 1) {
  SeriesPoint point;
  point.wall_ms = wall_ms;
  point.read_iops = read_iops;
  return point;
}

uint64_t WindowsOf(const Series& series) {
  uint64_t windows = 0;
  for (const SeriesBucket& bucket : series.buckets) windows += bucket.windows;
  return windows;
}

class SeriesContract : public WatchedHistoryTest {
 protected:
  void Append(const SeriesPoint& point, const std::string& node = "a") {
    const absl::Status appended = history_->AppendPoint(node, point);
    ASSERT_TRUE(appended.ok()) << appended;
  }
  Series Read(int64_t from_ms, int64_t to_ms, size_t max_points, const std::string& node = "a") {
    const absl::StatusOr<Series> series = history_->ReadSeries(node, from_ms, to_ms, max_points);
    EXPECT_TRUE(series.ok()) << series.status();
    return series.value_or(Series());
  }
};

TEST_P(SeriesContract, FewWindowsAreToldSingly) {
  for (int64_t i = 0; i < 100; ++i) {
    SeriesPoint point = PointAt(1000 * i, static_cast<double>(i));
    point.index = i % 2 == 0 ? 100 + static_cast<double>(i) : kMissing;
    point.on_trial = i == 12;
    Append(point);
    Append(PointAt(1000 * i, -1), "ab");  // another node, whose name begins alike
  }

  const Series series = Read(10'000, 20'000, 100);

  EXPECT_EQ(series.bucket_ms, 0);
  ASSERT_EQ(series.buckets.size(), 10U);
  EXPECT_EQ(series.buckets[0].mean.wall_ms, 10'000);
  EXPECT_EQ(series.buckets[0].mean.index, 110);
  EXPECT_TRUE(std::isnan(series.buckets[1].mean.index));
  EXPECT_EQ(series.buckets[1].mean.read_iops, 11);
  EXPECT_TRUE(series.buckets[2].mean.on_trial);
  EXPECT_FALSE(series.buckets[3].mean.on_trial);
  EXPECT_EQ(series.buckets[3].windows, 1U);
}

TEST_P(SeriesContract, ManyWindowsAreBucketsWithMinMaxMeanAndCount) {
  for (int64_t i = 0; i < 100; ++i) {
    SeriesPoint point = PointAt(1000 * i, static_cast<double>(i));
    point.index = i % 2 == 0 ? 100 + static_cast<double>(i) : kMissing;
    point.write_iops = std::numeric_limits<double>::infinity();
    point.on_trial = i == 42;
    Append(point);
  }

  const Series series = Read(0, 100'000, 10);

  EXPECT_EQ(series.bucket_ms, 10'000);
  ASSERT_EQ(series.buckets.size(), 10U);
  const SeriesBucket& first = series.buckets[0];
  EXPECT_EQ(first.windows, 10U);
  EXPECT_EQ(first.counts[0], 5U);  // index: 100, 102, ... 108
  EXPECT_EQ(first.mean.index, 104);
  EXPECT_EQ(first.min.index, 100);
  EXPECT_EQ(first.max.index, 108);
  EXPECT_EQ(first.mean.read_iops, 4.5);
  EXPECT_EQ(first.mean.wall_ms, 9'000);
  EXPECT_TRUE(std::isnan(first.mean.write_iops)) << "infinite is no measurement";
  EXPECT_TRUE(std::isnan(first.min.write_iops));
  EXPECT_TRUE(series.buckets[4].mean.on_trial);
  EXPECT_FALSE(series.buckets[5].mean.on_trial);
}

// Goal: every level says what its windows say. Method: windows at random times, most forward and
// some back, with gaps and missing numbers, against buckets made the plain way.
TEST_P(SeriesContract, EveryLevelAgreesWithItsWindows) {
  constexpr int64_t kSpanMs = 24 * 600'000;
  Rng rng(7);
  std::map<int64_t, SeriesPoint> windows;
  for (int64_t i = 0; i < 600; ++i) {
    const auto wall_ms = static_cast<int64_t>(rng.Below(kSpanMs));
    SeriesPoint point = PointAt(wall_ms, static_cast<double>(rng.Below(1000)));
    point.index = rng.Below(3) == 0 ? kMissing : static_cast<double>(rng.Below(200));
    if (!windows.emplace(wall_ms, point).second) continue;
    Append(point);
  }
  for (const int64_t end_ms : {int64_t{0}, kSpanMs - 1}) {
    if (windows.emplace(end_ms, PointAt(end_ms)).second) Append(PointAt(end_ms));
  }

  for (const int64_t length_ms : {10'000, 60'000, 600'000, 1'200'000}) {
    const Series series = Read(0, kSpanMs, static_cast<size_t>(kSpanMs / length_ms));
    ASSERT_EQ(series.bucket_ms, length_ms);
    std::map<int64_t, RollUp> expected;
    for (const auto& [wall_ms, point] : windows) expected[wall_ms / length_ms].Add(point);
    ASSERT_EQ(series.buckets.size(), expected.size());
    size_t i = 0;
    for (const auto& [bucket, roll_up] : expected) {
      const SeriesBucket want = roll_up.ToBucket();
      const SeriesBucket& got = series.buckets[i++];
      EXPECT_EQ(got.windows, want.windows);
      EXPECT_EQ(got.counts, want.counts);
      EXPECT_EQ(got.mean.wall_ms, want.mean.wall_ms);
      EXPECT_NEAR(got.mean.read_iops, want.mean.read_iops, 1e-9);
      EXPECT_EQ(got.min.read_iops, want.min.read_iops);
      EXPECT_EQ(got.max.read_iops, want.max.read_iops);
      EXPECT_EQ(std::isnan(got.mean.index), std::isnan(want.mean.index));
    }
  }
}

TEST_P(SeriesContract, AWindowToldTwiceCountsOnce) {
  for (int64_t i = 0; i < 30; ++i) Append(PointAt(1000 * i, 10));
  for (int64_t i = 0; i < 30; ++i) Append(PointAt(1000 * i, 99));

  const Series series = Read(0, 30'000, 3);

  EXPECT_EQ(WindowsOf(series), 30U);
  EXPECT_EQ(series.buckets[0].max.read_iops, 10);
}

TEST_P(SeriesContract, AnAnswerReadsTenRowsAPointAtMost) {
  constexpr int64_t kSpanMs = 2 * kMsPerDay;
  for (int64_t ms = 0; ms < kSpanMs; ms += 20'000) Append(PointAt(ms));
  for (const size_t points : {1, 20, 300, 3000}) {
    const uint64_t before = watched_->rows();

    const Series series = Read(0, kSpanMs, points);

    EXPECT_LE(series.buckets.size(), points);
    EXPECT_GE(2 * series.buckets.size(), points);
    EXPECT_EQ(WindowsOf(series), static_cast<uint64_t>(kSpanMs / 20'000));
    // One point is made of whole roll-ups of the coarsest level.
    EXPECT_LE(watched_->rows() - before, std::max<uint64_t>(10 * points, 300) + 20);
  }
}

TEST_P(SeriesContract, EachLevelIsKeptForItsTime) {
  HistoryConfig config;
  config.keep = {kMsPerDay / 24, kMsPerDay / 4, kMsPerDay, 10 * kMsPerDay};
  Open(config);
  constexpr int64_t kEndMs = 3 * kMsPerDay;
  for (int64_t ms = 0; ms < kEndMs; ms += 10'000) Append(PointAt(ms));

  // What the windows, the ten seconds and the minutes no longer reach is told more coarsely.
  EXPECT_EQ(Read(kEndMs - 1'000'000, kEndMs, kEverything).bucket_ms, 0);
  EXPECT_EQ(Read(kEndMs - kMsPerDay / 5, kEndMs, kEverything).bucket_ms, 10'000);
  EXPECT_EQ(Read(kEndMs - kMsPerDay / 2, kEndMs, kEverything).bucket_ms, 60'000);
  const Series all = Read(0, kEndMs, kEverything);
  EXPECT_EQ(all.bucket_ms, 600'000);
  EXPECT_EQ(WindowsOf(all), static_cast<uint64_t>(kEndMs / 10'000));
  // The time of an old question is answered as finely as it is kept.
  EXPECT_EQ(Read(1'200'000, 3'000'000, kEverything).buckets.size(), 3U);
}

TEST_P(SeriesContract, ANodeThatIsGoneIsForgottenInTimeToo) {
  for (int64_t ms = 0; ms < 1000; ms += 10) Append(PointAt(ms), "gone");
  for (int64_t i = 0; i < 3 * 1440; ++i) Append(PointAt(4 * kMsPerDay + 1000 * i));

  EXPECT_EQ(Read(0, kMsPerDay, kEverything, "gone").bucket_ms, 10'000);
}

TEST_P(SeriesContract, AClockThatJumpsAheadAndBackLosesNoMoreThanADay) {
  constexpr int64_t kStartMs = 100 * kMsPerDay;
  for (int64_t i = 0; i < 1000; ++i) Append(PointAt(kStartMs + 300'000 * i));
  const uint64_t before = WindowsOf(Read(0, kStartMs + 4 * kMsPerDay, kEverything));
  for (int64_t i = 0; i < 1440; ++i) Append(PointAt(kStartMs + 4000 * kMsPerDay + i));

  const Series series = Read(0, kStartMs + 4 * kMsPerDay, kEverything);

  EXPECT_GE(WindowsOf(series) + kMsPerDay / 300'000, before);
}

TEST_P(SeriesContract, APowerCutLosesAMinuteAtMost) {
  const uint64_t before = watched_->syncs();
  for (int64_t ms = 0; ms < 600'000; ms += 1000) Append(PointAt(ms));
  EXPECT_EQ(watched_->syncs() - before, 10U);
}

// A history of before there were roll-ups: windows alone.
TEST_P(SeriesContract, AnOldHistoryGetsItsRollUps) {
  std::vector<StoreEdit> old = {{Table::kDocuments, "history/series", std::nullopt}};
  for (int64_t i = 0; i < 5'000; ++i) {
    for (const std::string node : {"a", "ab"}) {
      std::string key = node + std::string(1, '\0');
      for (int shift = 56; shift >= 0; shift -= 8) key += static_cast<char>(1000 * i >> shift);
      old.push_back({Table::kSeries, key, PackPoint(PointAt(1000 * i, static_cast<double>(i)))});
    }
  }
  ASSERT_TRUE(store_->Write(old, true).ok());
  HistoryConfig reading;
  reading.read_only = true;
  Open(reading);
  EXPECT_EQ(watched_->syncs(), 0U);
  EXPECT_EQ(Read(0, 5'000'000, 500).buckets.size(), 500U);

  OpenInSpiteOfAFullDisk();
  Append(PointAt(5'000'000, 5'000));

  const Series series = Read(0, 5'010'000, 501);
  EXPECT_EQ(series.bucket_ms, 10'000);
  EXPECT_EQ(WindowsOf(series), 5'001U);
  EXPECT_EQ(series.buckets[2].mean.read_iops, 24.5);
  EXPECT_EQ(WindowsOf(Read(0, 5'000'000, 80, "ab")), 5'000U);
  EXPECT_EQ(WindowsOf(Read(0, 5'000'000, 8, "ab")), 5'000U);
}

INSTANTIATE_TEST_SUITE_P(Stores, SeriesContract, StoreKinds(), StoreKindName);

}  // namespace
}  // namespace ebb::engine
