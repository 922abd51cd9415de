// What users of other write-back caches complained about: each must not be possible here. The
// complaints, with their reports, are listed in docs/adr/0005-trust.md.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "fmt/format.h"
#include "storage-backend/device/device_wrapper.h"
#include "storage-backend/device/mem_device.h"
#include "tests/storage-backend/crash/crash_workload.h"
#include "tests/storage-backend/crash/metrics_check.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kSegmentBlocks = 16;

absl::Status WriteBlock(Volume& volume, uint64_t block, uint64_t version) {
  return volume.Write(block * kBlockBytes, MakeBlock(block, version).span(), /*fua=*/false);
}

uint64_t ReadVersion(Volume& volume, uint64_t block) {
  std::vector<std::byte> data(kBlockBytes);
  const absl::Status status = volume.Read(block * kBlockBytes, data);
  EXPECT_TRUE(status.ok()) << status;
  return VersionOf(block, data);
}

void Set(Volume& volume, std::initializer_list<std::pair<KnobId, int64_t>> values) {
  Setting setting = volume.CurrentSetting();
  for (const auto& [knob, value] : values) setting.Set(knob, value);
  const absl::Status status = volume.Apply(setting);
  ASSERT_TRUE(status.ok()) << status;
}

// Holds back every write to a device while it is shut.
class Gate {
 public:
  void Shut() {
    const std::lock_guard lock(mutex_);
    shut_ = true;
  }
  void Open() {
    {
      const std::lock_guard lock(mutex_);
      shut_ = false;
    }
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    if (shut_) ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !shut_; });
  }
  void AwaitSomebody() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool shut_ = false;
  int waiting_ = 0;
};

class GatedDevice final : public DeviceWrapper {
 public:
  GatedDevice(uint64_t size_bytes, Gate& gate)
      : DeviceWrapper(std::make_unique<MemDevice>(size_bytes)), gate_(gate) {}
  absl::Status Write(uint64_t offset, std::span<const std::byte> in) override {
    gate_.Pass();
    return inner().Write(offset, in);
  }

 private:
  Gate& gate_;
};

// Open-CAS/open-cas-linux#1672: once full, the cache handed writes through to the disk and stayed
// so.
TEST(KnownComplaintsTest, FullCacheNeverTurnsWriteThroughAndRecovers) {
  ManualClock clock;
  TestNode node({.fake_tier = false, .background_threads = false}, clock);
  ASSERT_TRUE(node.Open().ok());
  Volume& volume = node.volume();
  const uint64_t blocks = volume.volume_bytes() / kBlockBytes;
  const uint64_t cache_blocks = volume.Metrics().cache_space_bytes / kBlockBytes;
  ASSERT_GT(blocks, 2 * cache_blocks);

  uint64_t written_blocks = 0;
  for (uint64_t round = 1; round <= 3; ++round) {
    for (uint64_t block = 0; block < blocks; ++block, ++written_blocks) {
      ASSERT_TRUE(WriteBlock(volume, block, round).ok());
    }
    EXPECT_EQ(volume.Metrics().cache_data_bytes, written_blocks * kBlockBytes) << "written through";
    ASSERT_TRUE(volume.Drain(nullptr).ok());

    // A burst after the drain is taken by the cache alone.
    const uint64_t capacity_written = volume.Metrics().capacity_written_bytes;
    const uint64_t burst = cache_blocks / 3;
    for (uint64_t block = 0; block < burst; ++block, ++written_blocks) {
      ASSERT_TRUE(WriteBlock(volume, block, round).ok());
    }
    EXPECT_EQ(volume.Metrics().dirty_bytes, burst * kBlockBytes);
    EXPECT_EQ(volume.Metrics().capacity_written_bytes, capacity_written);
  }
}

// open-cas-linux#1588: all dirty, and cleaning waits for 10 s without requests that never come.
// Here writers never pause and the knobs say "as polite as can be": still more is written than the
// cache holds, so it must have been cleaned in between.
TEST(KnownComplaintsTest, HundredPercentDirtyIsCleanedUnderLoad) {
  TestNode node({.fake_tier = false, .background_threads = true}, RealClock());
  ASSERT_TRUE(node.Open().ok());
  Volume& volume = node.volume();
  Set(volume, {{KnobId::kDestagePoliteness, 100},
               {KnobId::kDestageWatermark, 90},
               {KnobId::kThrottleSoftness, 0}});
  const uint64_t cache_bytes = volume.Metrics().cache_space_bytes;
  std::atomic<bool> done{false};
  std::atomic<int> failures{0};
  std::thread reader([&] {
    std::vector<std::byte> data(kBlockBytes);
    for (uint64_t block = 0; !done; block = (block + 1) % 64) {
      if (!volume.Read(block * kBlockBytes, data).ok()) ++failures;
    }
  });
  const uint64_t blocks = volume.volume_bytes() / kBlockBytes;
  for (uint64_t i = 0; i < 4 * cache_bytes / kBlockBytes; ++i) {
    if (!WriteBlock(volume, i % blocks, i + 1).ok()) ++failures;
  }
  const VolumeMetrics metrics = volume.Metrics();
  done = true;
  reader.join();

  EXPECT_EQ(failures, 0);
  EXPECT_GE(metrics.destaged_blocks * kBlockBytes, 2 * cache_bytes);
}

// open-cas-linux#1439: 20,000, then 5,000, then 500 requests a second as the flush batch grows.
// Here clients do not wait for a batch at all: with the capacity device standing still in the
// middle of the largest batch, they read and write what the cache holds.
TEST(KnownComplaintsTest, BiggerDestageBatchesDoNotStarveClients) {
  constexpr uint64_t kCacheBlocks = 2 + 64 * kSegmentBlocks;
  for (const int64_t batch_bytes : {int64_t{256} << 10, int64_t{64} << 20}) {
    Gate gate;
    MemMetadata metadata;
    VolumeParts parts;
    parts.cache = std::make_unique<MemDevice>(kCacheBlocks * kBlockBytes);
    parts.capacity.push_back(std::make_unique<GatedDevice>(32 << 20, gate));
    parts.metadata = BorrowMetadata(&metadata);
    parts.open_tier = CapacityTier::Open;
    VolumeConfig config;
    config.volume_bytes = 8 << 20;
    config.segment_bytes = kSegmentBlocks * kBlockBytes;
    config.background_threads = false;
    config.setting.Set(KnobId::kReadCacheBytes, 0);
    config.setting.Set(KnobId::kDestageBatchBytes, batch_bytes);
    auto volume = VolumeImpl::Open(config, std::move(parts), RealClock(), nullptr);
    ASSERT_TRUE(volume.ok()) << volume.status();
    for (uint64_t block = 0; block < kCacheBlocks / 4; ++block) {
      ASSERT_TRUE(WriteBlock(**volume, block, 1).ok());
    }
    ASSERT_TRUE((*volume)->Flush().ok());

    gate.Shut();
    std::thread destage([&] { EXPECT_TRUE((*volume)->RunBackgroundStep().ok()); });
    gate.AwaitSomebody();
    for (uint64_t block = 0; block < kCacheBlocks / 4; ++block) {
      EXPECT_EQ(ReadVersion(**volume, block), 1U);
      EXPECT_TRUE(WriteBlock(**volume, block, 2).ok());
      EXPECT_EQ(ReadVersion(**volume, block), 2U);
      if (block % 64 == 0) {
        EXPECT_TRUE((*volume)->Flush().ok());
      }
    }
    gate.Open();
    destage.join();
    EXPECT_TRUE((*volume)->Drain(nullptr).ok());
    EXPECT_EQ(ReadVersion(**volume, 7), 2U);
  }
}

// open-cas-linux#832: a cache line was valid and dirty in the metadata before its data was on the
// disk. Here no commit of the map goes out while the capacity device could still lose a write.
TEST(KnownComplaintsTest, MetadataIsNeverValidBeforeItsDataIsDown) {
  uint64_t commits = 0;
  uint64_t too_early = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    CrashNode node({.seed = seed, .capacity_devices = 2});
    node.OnCommit([&](const MetadataBatch& batch) {
      const bool names_data =
          std::ranges::any_of(batch.changes(), [](const MetadataBatch::Change& change) {
            return change.table != Table::kNode && change.value.has_value();
          });
      if (!names_data) return;
      ++commits;
      if (node.capacity(0).unflushed_writes() + node.capacity(1).unflushed_writes() > 0) {
        ++too_early;
      }
    });
    CrashWorkload workload(node, seed, 128);
    ASSERT_EQ(workload.Recover(), "");
    ASSERT_EQ(workload.Run(150), "") << "seed " << seed;
    ASSERT_EQ(workload.Scatter(), "") << "seed " << seed;
    ASSERT_EQ(workload.Compact(), "") << "seed " << seed;
  }
  EXPECT_GT(commits, 200U);
  EXPECT_EQ(too_early, 0U);
}

// Open-CAS/ocf#617: a cache that was initialised again showed blocks of its former life. Here a
// second node lives on devices full of the first one's log and extents, through kills and power
// cuts; the oracle knows nothing of the first.
TEST(KnownComplaintsTest, ReinitialisedNodeNeverShowsStaleBlocks) {
  constexpr uint64_t kBlocks = 128;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    CrashNode node({.seed = seed});
    {
      CrashWorkload first_life(node, seed, kBlocks);
      ASSERT_EQ(first_life.Recover(), "");
      ASSERT_EQ(first_life.Run(120), "") << "seed " << seed;
    }
    node.Reinitialise();

    CrashWorkload second_life(node, seed + 1000, kBlocks);
    ASSERT_EQ(second_life.Recover(), "") << "seed " << seed;
    for (uint64_t cut = 1; cut <= 5; ++cut) {
      node.power().CutAtWrite(node.power().writes() + 10 * cut);
      ASSERT_EQ(second_life.Run(40), "") << "seed " << seed;
      node.Reboot(seed * 10 + cut);
      ASSERT_EQ(second_life.Recover(), "") << "seed " << seed << ", cut " << cut;
    }
  }
}

// A knob that waits for the next request to act does nothing on an idle node.
TEST(KnownComplaintsTest, KnobsActWithoutAnyRequest) {
  ManualClock clock;
  TestNode node({.fake_tier = false, .background_threads = false}, clock);
  ASSERT_TRUE(node.Open().ok());
  Volume& volume = node.volume();
  Set(volume, {{KnobId::kNvmeReadShare, 90}, {KnobId::kReadCacheBytes, 2 << 20}});
  for (uint64_t block = 0; block < 200; ++block) ASSERT_TRUE(WriteBlock(volume, block, 1).ok());
  ASSERT_TRUE(volume.Drain(nullptr).ok());
  for (uint64_t block = 0; block < 200; ++block) ASSERT_EQ(ReadVersion(volume, block), 1U);
  const VolumeMetrics before = volume.Metrics();
  ASSERT_GT(before.read_cache_used_bytes, 0U);
  const auto background = [&] {
    absl::StatusOr<bool> worked = true;
    while (worked.ok() && *worked) worked = volume.RunBackgroundStep();
    EXPECT_TRUE(worked.ok()) << worked.status();
  };

  Set(volume, {{KnobId::kReadCacheBytes, 0}});
  background();
  EXPECT_EQ(volume.Metrics().read_cache_used_bytes, 0U);

  Set(volume, {{KnobId::kNvmeReadShare, 0}});
  background();
  EXPECT_GT(volume.Metrics().free_bytes, before.free_bytes) << "clean copies were to be given up";
}

// The watermark too: a node that is less full than it said, and then told to begin earlier, begins.
TEST(KnownComplaintsTest, LoweredWatermarkStartsDestageOfAnIdleNode) {
  TestNode node({.fake_tier = false, .background_threads = true}, RealClock());
  ASSERT_TRUE(node.Open().ok());
  Volume& volume = node.volume();
  Set(volume, {{KnobId::kDestageWatermark, 90}, {KnobId::kDestagePoliteness, 100}});
  for (uint64_t block = 0; block < 80; ++block) ASSERT_TRUE(WriteBlock(volume, block, 1).ok());
  ASSERT_TRUE(volume.Flush().ok());
  ASSERT_GT(volume.Metrics().dirty_share, 0.2);

  Set(volume, {{KnobId::kDestageWatermark, 5}, {KnobId::kDestagePoliteness, 0}});

  // Returns only when it drained by itself; the test's own limit of time is the alternative.
  while (volume.Metrics().destaged_blocks == 0) {
    RealClock().SleepUntilNs(RealClock().MonotonicNs() + 1'000'000);
  }
}

// Statistics of one snapshot agree with each other, counters never run backwards and nothing goes
// below zero, while clients, the destager, drains and knob changes run at the same time.
TEST(KnownComplaintsTest, StatisticsNeverContradictEachOther) {
  constexpr uint64_t kBlocks = 1024;
  TestNode node({.volume_bytes = kBlocks * kBlockBytes,
                 .cache_bytes = (2 + 32 * kSegmentBlocks) * kBlockBytes,
                 .fake_tier = false,
                 .background_threads = true},
                RealClock());
  ASSERT_TRUE(node.Open().ok());
  Volume& volume = node.volume();
  std::atomic<int> failures{0};
  std::atomic<bool> done{false};
  const auto client = [&](uint64_t seed) {
    Rng rng(seed);
    std::vector<std::byte> data(16 * kBlockBytes);
    for (uint64_t step = 1; step <= 4000; ++step) {
      const uint64_t block = rng.Below(kBlocks - 16);
      const uint64_t bytes = (1 + rng.Below(16)) * kBlockBytes;
      const uint64_t action = rng.Below(100);
      absl::Status status;
      if (action < 55) {
        status = WriteBlock(volume, block, step);
      } else if (action < 85) {
        status = volume.Read(block * kBlockBytes, std::span(data).first(bytes));
      } else if (action < 95) {
        status = volume.Trim(block * kBlockBytes, bytes, false);
      } else if (action < 99) {
        status = volume.Flush();
      } else {
        Setting setting;
        setting.Set(KnobId::kNvmeReadShare, static_cast<int64_t>(rng.Below(19)) * 5);
        setting.Set(KnobId::kReadCacheBytes, static_cast<int64_t>(rng.Below(4)) << 20);
        setting.Set(KnobId::kDestageWatermark, 5 + static_cast<int64_t>(rng.Below(80)));
        status = volume.Apply(setting);
      }
      if (!status.ok()) ++failures;
    }
  };
  std::string fault;
  uint64_t snapshots = 0;
  std::thread watcher([&] {
    VolumeMetrics before = volume.Metrics();
    while (!done && fault.empty()) {
      const VolumeMetrics after = volume.Metrics();
      fault = MetricsFault(after);
      if (fault.empty()) fault = MetricsFault(before, after);
      before = after;
      ++snapshots;
    }
  });
  std::vector<std::thread> clients;
  for (uint64_t seed = 1; seed <= 4; ++seed) clients.emplace_back(client, seed);
  for (std::thread& thread : clients) thread.join();
  EXPECT_TRUE(volume.Drain(nullptr).ok());
  done = true;
  watcher.join();

  EXPECT_EQ(fault, "");
  EXPECT_EQ(failures, 0);
  EXPECT_GT(snapshots, 100U);
}

// That test can fail: what the reports complained about is noticed.
TEST(KnownComplaintsTest, ContradictingStatisticsAreNoticed) {
  VolumeMetrics metrics;
  metrics.cache_space_bytes = metrics.free_bytes = 100;
  ASSERT_EQ(MetricsFault(metrics), "");
  metrics.dirty_bytes = 120;
  metrics.clean_bytes = uint64_t{0} - 120;
  EXPECT_NE(MetricsFault(metrics), "") << "dirty above occupancy, a huge unsigned number";
  VolumeMetrics later;
  later.destaged_blocks = 4;
  EXPECT_NE(MetricsFault(later, VolumeMetrics{}), "") << "a counter that ran backwards";
}

}  // namespace
}  // namespace ebb::storage
