// Each knob changes what a volume measurably does, at run time. The others are in
// tests/storage-backend/volume: nvme_read_share, read_cache_bytes, readahead_blocks,
// sequential_bypass_bytes and read_admission in volume_test.cc, scrub_mibps in scrubber_test.cc.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/units.h"
#include "storage-backend/device/device_wrapper.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

// Counts flushes and transfers in flight, and lets a write take simulated time.
class WatchedDevice final : public DeviceWrapper {
 public:
  WatchedDevice(Device& inner, ManualClock& clock) : DeviceWrapper(inner), clock_(clock) {}

  absl::Status Write(uint64_t offset, std::span<const std::byte> in) override {
    TakeTime();
    return inner().Write(offset, in);
  }
  absl::Status Flush() override {
    ++flushes;
    if (flush_real_time) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return inner().Flush();
  }
  std::unique_ptr<IoQueue> MakeQueue(size_t depth) override;

  std::atomic<uint64_t> flushes{0};
  std::atomic<bool> flush_real_time{false};  // so that clients meet at it
  std::mutex gate;                           // who holds it holds writes back
  std::atomic<uint64_t> writes_in_flight_max{0};

 private:
  class Queue;
  void TakeTime() {
    const std::lock_guard wait(gate);
    clock_.AdvanceNs(20 * kNsPerMs);  // slow enough that a throttle has something to do
  }

  ManualClock& clock_;
};

// Hands nothing back before it is waited for, as a device that takes its time.
class WatchedDevice::Queue final : public IoQueue {
 public:
  Queue(WatchedDevice& device, std::unique_ptr<IoQueue> inner)
      : device_(device), inner_(std::move(inner)) {}
  void Submit(Io* io) override {
    if (io->kind == Io::Kind::kWrite) {
      device_.TakeTime();
      device_.writes_in_flight_max =
          std::max<uint64_t>(device_.writes_in_flight_max, inner_->in_flight() + 1);
    }
    inner_->Submit(io);
  }
  std::vector<Io*> Reap(size_t min_completions) override {
    if (min_completions == 0) return {};
    return inner_->Reap(min_completions);
  }
  size_t in_flight() const override { return inner_->in_flight(); }
  size_t depth() const override { return inner_->depth(); }

 private:
  WatchedDevice& device_;
  const std::unique_ptr<IoQueue> inner_;
};

std::unique_ptr<IoQueue> WatchedDevice::MakeQueue(size_t depth) {
  return std::make_unique<Queue>(*this, inner().MakeQueue(depth));
}

class KnobEffectTest : public ::testing::Test {
 protected:
  void Open(bool background_threads = false, Clock* clock = nullptr) {
    volume_.reset();
    VolumeParts parts;
    parts.cache = BorrowDevice(log_device_);
    parts.capacity.push_back(BorrowDevice(&capacity_));
    parts.metadata = BorrowMetadata(&metadata_);
    parts.open_tier = CapacityTier::Open;
    VolumeConfig config;
    config.volume_bytes = kBlocks * kBlockBytes;
    config.segment_bytes = 32 * kBlockBytes;
    config.background_threads = background_threads;
    config.setting.Set(KnobId::kReadCacheBytes, 0);
    config.setting.Set(KnobId::kNvmeReadShare, 0);
    auto volume =
        VolumeImpl::Open(config, std::move(parts), clock == nullptr ? clock_ : *clock, nullptr);
    ASSERT_TRUE(volume.ok()) << volume.status();
    volume_ = *std::move(volume);
  }
  void Set(KnobId id, int64_t value) {
    Setting setting = volume_->CurrentSetting();
    setting.Set(id, value);
    ASSERT_TRUE(volume_->Apply(setting).ok());
  }
  void Write(uint64_t block, std::span<const std::byte> data) {
    ASSERT_TRUE(volume_->Write(block * kBlockBytes, data, /*fua=*/false).ok());
  }
  // Blocks that neither compress nor equal any other.
  void WriteRandom(uint64_t first, uint64_t count) {
    AlignedBuffer data(kBlockBytes);
    for (uint64_t block = first; block < first + count; ++block) {
      for (size_t at = 0; at < kBlockBytes; at += 8) {
        const uint64_t word = rng_.Next();
        std::memcpy(data.data() + at, &word, sizeof word);
      }
      Write(block, data.span());
    }
  }
  // Numbers that grow: blocks differ, and more of them together compress better.
  void WriteText(uint64_t first, uint64_t count) {
    AlignedBuffer data(kBlockBytes);
    for (uint64_t block = first; block < first + count; ++block) {
      for (size_t at = 0; at < kBlockBytes; at += 8) {
        std::snprintf(reinterpret_cast<char*>(data.data()) + at, 8, "%07u",
                      static_cast<unsigned>((block * 512 + at / 8) % 10'000'000));
      }
      Write(block, data.span());
    }
  }
  // What a drain of what `write` wrote did.
  VolumeMetrics Destaged(const std::function<void()>& write) {
    const VolumeMetrics before = volume_->Metrics();
    write();
    EXPECT_TRUE(volume_->Flush().ok());  // only what is durable is destaged
    EXPECT_TRUE(volume_->Drain(nullptr).ok());
    VolumeMetrics after = volume_->Metrics();
    after.destage_raw_bytes -= before.destage_raw_bytes;
    after.destage_stored_bytes -= before.destage_stored_bytes;
    after.deduplicated_blocks -= before.deduplicated_blocks;
    after.destage_batches -= before.destage_batches;
    after.destaged_blocks -= before.destaged_blocks;
    return after;
  }
  // Polls a node that runs by itself.
  void WaitUntil(const std::function<bool()>& done) {
    for (int i = 0; i < 6000 && !done(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(done());
  }
  // Long enough in real time for a background thread that is awake to have acted many times.
  void LetItLook() {
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(volume_->Apply(volume_->CurrentSetting()).ok());  // wakes it
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  static constexpr uint64_t kBlocks = 8192;
  ManualClock clock_;
  MemDevice cache_memory_{(2 + 128 * 32) * kBlockBytes};
  MemDevice capacity_memory_{64 * kMiB};
  WatchedDevice cache_{cache_memory_, clock_};
  WatchedDevice capacity_{capacity_memory_, clock_};
  Device* log_device_ = &cache_;
  MemMetadata metadata_;
  std::unique_ptr<Volume> volume_;
  Rng rng_{7};
};

TEST_F(KnobEffectTest, CompressionShrinksWhatIsStored) {
  Open();
  Set(KnobId::kDedup, static_cast<int64_t>(Dedup::kOff));
  uint64_t last = UINT64_MAX;
  for (const Compression codec : {Compression::kOff, Compression::kLz4, Compression::kZstd1}) {
    Set(KnobId::kCompression, static_cast<int64_t>(codec));
    const VolumeMetrics done = Destaged([&] { WriteText(0, 128); });
    EXPECT_LT(done.destage_stored_bytes, last) << static_cast<int>(codec);
    last = done.destage_stored_bytes;
  }
  Set(KnobId::kCompression, static_cast<int64_t>(Compression::kOff));
  const VolumeMetrics raw = Destaged([&] { WriteText(0, 128); });
  EXPECT_EQ(raw.destage_stored_bytes, 128 * kBlockBytes);
}

TEST_F(KnobEffectTest, CompressionUnitTradesRatio) {
  Open();
  Set(KnobId::kCompression, static_cast<int64_t>(Compression::kZstd3));
  Set(KnobId::kCompressionUnitBytes, 4096);
  const VolumeMetrics small = Destaged([&] { WriteText(0, 256); });
  Set(KnobId::kCompressionUnitBytes, 64 * 1024);
  const VolumeMetrics large = Destaged([&] { WriteText(512, 256); });

  EXPECT_LT(large.destage_stored_bytes, small.destage_stored_bytes * 9 / 10);
}

TEST_F(KnobEffectTest, DedupStoresEqualBlocksOnce) {
  Open();
  const AlignedBuffer same = MakeBlock(1, 1);
  const auto equal_blocks = [&](uint64_t first) {
    WriteRandom(first, 1);
    for (uint64_t i = 1; i < 64; ++i) {
      Write(first + i, {same.data(), kBlockBytes});
    }
  };
  Set(KnobId::kDedup, static_cast<int64_t>(Dedup::kOff));
  EXPECT_EQ(Destaged([&] { equal_blocks(0); }).deduplicated_blocks, 0U);

  Set(KnobId::kDedup, static_cast<int64_t>(Dedup::kOn));
  EXPECT_GE(Destaged([&] { equal_blocks(100); }).deduplicated_blocks, 62U);
}

TEST_F(KnobEffectTest, SampledDedupFindsRunsButFewSingleBlocks) {
  Open();
  uint64_t first = 0;
  // How much of a copy of 128 blocks is found; `apart`: new blocks between any two of it.
  const auto found = [&](Dedup dedup, uint64_t apart) {
    Set(KnobId::kDedup, static_cast<int64_t>(dedup));
    (void)Destaged([&] { WriteRandom(first, 128); });
    const VolumeMetrics done = Destaged([&] {
      AlignedBuffer data(kBlockBytes);
      for (uint64_t i = 0; i < 128; ++i) {
        EXPECT_TRUE(volume_->Read((first + i) * kBlockBytes, data.span()).ok());
        const uint64_t to = first + 128 + i * (1 + apart);
        Write(to, data.span());
        WriteRandom(to + 1, apart);
      }
    });
    first += 128 * (2 + apart);
    return done.deduplicated_blocks;
  };

  EXPECT_EQ(found(Dedup::kOff, 0), 0U);
  EXPECT_EQ(found(Dedup::kOn, 0), 128U);
  EXPECT_EQ(found(Dedup::kOn, 3), 128U);
  EXPECT_GT(found(Dedup::kSampled, 0), 110U);
  const uint64_t single = found(Dedup::kSampled, 3);
  EXPECT_GT(single, 0U);
  EXPECT_LT(single, 50U);
}

TEST_F(KnobEffectTest, BatchBytesBoundABatch) {
  // A batch is at most a 64th of the write space: that is to be no bound here.
  MemDevice large_cache(100 * kMiB);
  log_device_ = &large_cache;
  Open();
  Set(KnobId::kDestageBatchBytes, 256 * 1024);
  const VolumeMetrics small = Destaged([&] { WriteRandom(0, 256); });
  Set(KnobId::kDestageBatchBytes, 1024 * 1024);
  const VolumeMetrics large = Destaged([&] { WriteRandom(256, 256); });

  EXPECT_EQ(small.destaged_blocks, 256U);
  EXPECT_GE(small.destage_batches, 4U);
  EXPECT_LE(large.destage_batches, small.destage_batches / 2);
  volume_.reset();
}

TEST_F(KnobEffectTest, ParallelismIsExtentsInFlight) {
  Open();
  Set(KnobId::kCompression, static_cast<int64_t>(Compression::kOff));
  Set(KnobId::kDestageBatchBytes, 4 << 20);
  Set(KnobId::kDestageParallelism, 1);
  (void)Destaged([&] { WriteRandom(0, 1400); });
  EXPECT_EQ(capacity_.writes_in_flight_max, 1U);

  Set(KnobId::kDestageParallelism, 4);
  (void)Destaged([&] { WriteRandom(1400, 1400); });
  EXPECT_GT(capacity_.writes_in_flight_max, 1U);
  EXPECT_LE(capacity_.writes_in_flight_max, 4U);
}

// Method: the capacity device stands still while the log fills to about four fifths.
TEST_F(KnobEffectTest, SoftThrottleBeginsEarlier) {
  Open(/*background_threads=*/true);
  Set(KnobId::kDestageWatermark, 30);
  // So that the drain rate is known.
  (void)Destaged([&] { WriteRandom(0, 64); });
  const auto held_back_ns = [&](int64_t softness) {
    EXPECT_TRUE(volume_->Drain(nullptr).ok());
    Set(KnobId::kThrottleSoftness, softness);
    const uint64_t before = volume_->Metrics().throttle_ns;
    {
      const std::lock_guard hold(capacity_.gate);
      WriteRandom(0, 2800);
    }
    EXPECT_TRUE(volume_->Drain(nullptr).ok());
    return volume_->Metrics().throttle_ns - before;
  };

  EXPECT_EQ(held_back_ns(0), 0U);
  EXPECT_GT(held_back_ns(100), 0U);
  ASSERT_TRUE(volume_->Close().ok());
}

// Method: four clients that write and flush; how many flushes the device gets.
TEST_F(KnobEffectTest, FlushGroupingSparesTheDeviceFlushes) {
  constexpr uint64_t kClients = 4;
  constexpr uint64_t kWrites = 40;
  cache_.flush_real_time = true;
  const auto device_flushes = [&](int64_t group_us) {
    Open(/*background_threads=*/false, &RealClock());
    Set(KnobId::kFlushGroupUs, group_us);
    const uint64_t before = cache_.flushes;
    std::vector<std::thread> clients;
    for (uint64_t client = 0; client < kClients; ++client) {
      clients.emplace_back([this, client] {
        for (uint64_t i = 0; i < kWrites; ++i) {
          EXPECT_TRUE(volume_->Write(client * kBlockBytes, MakeBlock(client, i).span(), true).ok());
        }
      });
    }
    for (std::thread& client : clients) client.join();
    return cache_.flushes - before;
  };

  const uint64_t alone = device_flushes(0);
  const uint64_t together = device_flushes(5000);
  EXPECT_LT(together, alone);
}

TEST_F(KnobEffectTest, WatermarkDecidesWhenDrainingBegins) {
  Open(/*background_threads=*/true);
  Set(KnobId::kDestagePoliteness, 100);
  Set(KnobId::kDestageWatermark, 90);
  WriteRandom(0, 1600);  // about two fifths of the write space; the clock stands: nobody is idle
  ASSERT_TRUE(volume_->Flush().ok());
  LetItLook();
  EXPECT_EQ(volume_->Metrics().destaged_blocks, 0U);

  Set(KnobId::kDestageWatermark, 20);

  WaitUntil([&] { return volume_->Metrics().destaged_blocks > 0; });
  ASSERT_TRUE(volume_->Close().ok());
}

TEST_F(KnobEffectTest, PolitenessDecidesHowLongIdleIsIdle) {
  Open(/*background_threads=*/true);
  Set(KnobId::kDestageWatermark, 90);
  Set(KnobId::kDestagePoliteness, 100);
  WriteRandom(0, 100);
  ASSERT_TRUE(volume_->Flush().ok());
  LetItLook();
  clock_.AdvanceNs(kNsPerS);  // more than politeness 0 waits for, less than 100 does
  LetItLook();
  EXPECT_EQ(volume_->Metrics().destaged_blocks, 0U);

  Set(KnobId::kDestagePoliteness, 0);

  WaitUntil([&] { return volume_->Metrics().destaged_blocks == 100; });
  ASSERT_TRUE(volume_->Close().ok());
}

TEST_F(KnobEffectTest, CompactionPolitenessDecidesWhenSpaceComesBack) {
  Open(/*background_threads=*/true);
  Set(KnobId::kCompactionPoliteness, 100);
  WriteRandom(0, 1024);
  ASSERT_TRUE(volume_->Drain(nullptr).ok());
  for (uint64_t block = 0; block < 1024; block += 16) {
    ASSERT_TRUE(volume_->Trim(block * kBlockBytes, 15 * kBlockBytes, false).ok());
  }
  ASSERT_TRUE(volume_->Drain(nullptr).ok());
  LetItLook();
  clock_.AdvanceNs(4 * kNsPerS);  // idle, but not for long enough
  LetItLook();
  const uint64_t full = volume_->Metrics().physical_bytes;
  EXPECT_GT(full, 1024 * kBlockBytes);

  Set(KnobId::kCompactionPoliteness, 0);

  WaitUntil([&] { return volume_->Metrics().physical_bytes < full / 2; });
  ASSERT_TRUE(volume_->Close().ok());
}

TEST_F(KnobEffectTest, ReadPolicyWithstandsAScan) {
  Open();
  const auto hits_after_scan = [&](ReadPolicy policy) {
    Set(KnobId::kReadCacheBytes, 0);
    Set(KnobId::kReadPolicy, static_cast<int64_t>(policy));
    Set(KnobId::kReadCacheBytes, 1 << 20);
    Set(KnobId::kReadaheadBlocks, 0);
    std::vector<std::byte> data(kBlockBytes);
    const auto read = [&](uint64_t block) {
      EXPECT_TRUE(volume_->Read(block * kBlockBytes, data).ok());
    };
    for (int round = 0; round < 3; ++round) {
      for (uint64_t block = 0; block < 100; ++block) read(block);
    }
    for (uint64_t block = 200; block < 1000; ++block) read(block);
    const uint64_t before = volume_->Metrics().read_blocks_dram;
    for (uint64_t block = 0; block < 100; ++block) read(block);
    return volume_->Metrics().read_blocks_dram - before;
  };
  (void)Destaged([&] {
    for (uint64_t first = 0; first < 1000; first += 250) {
      WriteRandom(first, 250);
      EXPECT_TRUE(volume_->Drain(nullptr).ok());
    }
  });
  Set(KnobId::kReadAdmission, static_cast<int64_t>(ReadAdmission::kAlways));

  EXPECT_EQ(hits_after_scan(ReadPolicy::kLru), 0U);
  EXPECT_GT(hits_after_scan(ReadPolicy::kS3Fifo), 80U);
}

// Method: a hot set that fills the cache, then blocks that are read twice and never again.
TEST_F(KnobEffectTest, FrequencyAdmissionKeepsWhatIsReadMostOften) {
  Open();
  constexpr uint64_t kHot = ReadCache::kChunkSlots;
  const auto hot_hits = [&](ReadAdmission admission) {
    Set(KnobId::kReadCacheBytes, 0);
    Set(KnobId::kReadAdmission, static_cast<int64_t>(admission));
    Set(KnobId::kReadCacheBytes, kHot * kBlockBytes);
    std::vector<std::byte> data(kBlockBytes);
    const auto read = [&](uint64_t block) {
      EXPECT_TRUE(volume_->Read(block * kBlockBytes, data).ok());
    };
    for (int round = 0; round < 8; ++round) {
      for (uint64_t block = 0; block < kHot; ++block) read(block);
    }
    for (uint64_t block = kHot; block < 1000; ++block) {
      read(block);
      read(block);
    }
    const uint64_t before = volume_->Metrics().read_blocks_dram;
    for (uint64_t block = 0; block < kHot; ++block) read(block);
    return volume_->Metrics().read_blocks_dram - before;
  };
  (void)Destaged([&] {
    for (uint64_t first = 0; first < 1000; first += 250) {
      WriteRandom(first, 250);
      EXPECT_TRUE(volume_->Drain(nullptr).ok());
    }
  });
  Set(KnobId::kReadaheadBlocks, 0);
  Set(KnobId::kReadPolicy, static_cast<int64_t>(ReadPolicy::kLru));

  EXPECT_EQ(hot_hits(ReadAdmission::kAlways), 0U);
  EXPECT_EQ(hot_hits(ReadAdmission::kSecondHit), 0U);
  EXPECT_GT(hot_hits(ReadAdmission::kFrequency), kHot * 9 / 10);
}

}  // namespace
}  // namespace ebb::storage
