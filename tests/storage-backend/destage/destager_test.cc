// Destage over a real log and a capacity tier in memory.
#include "storage-backend/destage/destager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "storage-backend/metadata/mem_metadata.h"
#include "tests/storage-backend/destage/bad_block_device.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

using testing::HasSubstr;

constexpr uint64_t kCacheBytes = (2 + 16 * 16) * 4096;

class DestagerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto cache = std::make_unique<BadBlockDevice>(kCacheBytes);
    cache_ = cache.get();
    VolumeParts parts;
    parts.cache = std::move(cache);
    parts.capacity.push_back(std::make_unique<MemDevice>(16 << 20));
    parts.metadata = std::make_unique<MemMetadata>();
    parts.open_tier = [this](std::vector<Device*>, MetadataStore*, const Uuid&) {
      return absl::StatusOr<std::unique_ptr<CapacityTier>>(
          std::make_unique<FakeCapacityTier>(content_));
    };
    VolumeConfig config;
    config.volume_bytes = 4 << 20;
    config.segment_bytes = 16 * 4096;
    config.background_threads = false;
    config.setting.Set(KnobId::kReadCacheBytes, 0);
    auto volume = VolumeImpl::Open(config, std::move(parts), clock_, nullptr);
    ASSERT_TRUE(volume.ok()) << volume.status();
    volume_ = *std::move(volume);
  }
  void Write(uint64_t block, uint64_t version) {
    ASSERT_TRUE(volume_->Write(block * kBlockBytes, MakeBlock(block, version).span(), false).ok());
  }
  // Where the log has a block, by its content.
  uint64_t CacheBlockOf(uint64_t block, uint64_t version) {
    AlignedBuffer data(kBlockBytes);
    for (uint64_t at = 1; at < kCacheBytes / kBlockBytes; ++at) {
      EXPECT_TRUE(cache_->Read(at * kBlockBytes, data.span()).ok());
      if (VersionOf(block, data.span()) == version) return at;
    }
    return 0;
  }

  ManualClock clock_;
  BadBlockDevice* cache_ = nullptr;
  std::shared_ptr<FakeCapacityTier::Content> content_ =
      std::make_shared<FakeCapacityTier::Content>();
  std::unique_ptr<Volume> volume_;
};

// Goal: a sector of the cache device that cannot be read keeps its own block from the capacity tier
// and no other, and a drain says which.
TEST_F(DestagerTest, AnUnreadableBlockDoesNotStallTheOthers) {
  for (uint64_t block = 0; block < 40; ++block) Write(block, 1);
  ASSERT_TRUE(volume_->Flush().ok());
  cache_->bad = {CacheBlockOf(7, 1)};
  ASSERT_NE(*cache_->bad.begin(), 0u);

  const absl::Status status = volume_->Drain(nullptr);

  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("block 7 of the volume"));
  EXPECT_EQ(volume_->Metrics().dirty_bytes, kBlockBytes);
  EXPECT_EQ(volume_->Metrics().destaged_blocks, 39u);
  // It goes when it is readable again, or written anew.
  Write(7, 2);
  ASSERT_TRUE(volume_->Flush().ok());
  clock_.AdvanceNs(11 * kNsPerS);
  EXPECT_TRUE(volume_->Drain(nullptr).ok());
  EXPECT_EQ(volume_->Metrics().dirty_bytes, 0u);
  AlignedBuffer out(kBlockBytes);
  ASSERT_TRUE(volume_->Read(7 * kBlockBytes, out.span()).ok());
  EXPECT_EQ(VersionOf(7, out.span()), 2u);
}

TEST_F(DestagerTest, ABlockThatIsReadableAgainIsDestaged) {
  Write(3, 1);
  ASSERT_TRUE(volume_->Flush().ok());
  cache_->bad = {CacheBlockOf(3, 1)};
  EXPECT_FALSE(volume_->Drain(nullptr).ok());
  cache_->bad.clear();
  EXPECT_FALSE(volume_->Drain(nullptr).ok());  // not looked at for a while

  clock_.AdvanceNs(11 * kNsPerS);

  EXPECT_TRUE(volume_->Drain(nullptr).ok());
  EXPECT_EQ(volume_->Metrics().dirty_bytes, 0u);
}

// Records what Store was asked for, and takes longer when it is to compress.
class SlowCodecTier final : public CapacityTier {
 public:
  SlowCodecTier(ManualClock& clock, std::vector<bool>& compressed)
      : clock_(clock), compressed_(compressed) {}
  absl::Status Store(std::span<const StoreBlock> blocks, const StoreOptions& options,
                     StoreReport* report, const std::function<bool()>& keep_going) override {
    compressed_.push_back(options.compression != Compression::kOff);
    clock_.AdvanceNs(compressed_.back() ? 100 * kNsPerMs : kNsPerMs);
    return inner_.Store(blocks, options, report, keep_going);
  }
  absl::Status Remove(uint64_t first, uint64_t count) override {
    return inner_.Remove(first, count);
  }
  absl::Status Read(uint64_t first, uint64_t count, std::byte* out,
                    std::span<bool> mapped) override {
    return inner_.Read(first, count, out, mapped);
  }
  CapacityUsage Usage() override { return inner_.Usage(); }
  uint64_t FreeBytes() override { return inner_.FreeBytes(); }
  absl::StatusOr<bool> CompactStep() override { return inner_.CompactStep(); }
  absl::StatusOr<std::vector<std::string>> Check() override { return inner_.Check(); }

 private:
  ManualClock& clock_;
  std::vector<bool>& compressed_;
  FakeCapacityTier inner_{std::make_shared<FakeCapacityTier::Content>()};
};

// A destager on its own: log, tier and clock in the test's hands.
class BareDestagerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto log = CacheLog::Open({.device = &cache_,
                               .metadata = &metadata_,
                               .clock = &clock_,
                               .node_uuid = {1},
                               .epoch = 1,
                               .geometry = {.segment_blocks = 16, .segment_count = 16},
                               .on_change = nullptr},
                              nullptr);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    ASSERT_TRUE(log_->BeginSession().ok());
    destager_ = std::make_unique<Destager>(*log_, tier_, cache_, clock_);
  }
  void Append(uint64_t block) {
    ASSERT_TRUE(log_->Append(block, MakeBlock(block, 1).span(), clock_.MonotonicNs()).ok());
  }

  ManualClock clock_;
  MemDevice cache_{kCacheBytes};
  MemMetadata metadata_;
  std::vector<bool> compressed_;
  SlowCodecTier tier_{clock_, compressed_};
  std::unique_ptr<CacheLog> log_;
  std::unique_ptr<Destager> destager_;
};

// Goal: room in the log is what a batch gives back, not what it moves: of blocks that were
// overwritten many times only the last version moves. The throttle, told the moved bytes, held
// writers of a small working set to a twentieth of what they could have had.
TEST_F(BareDestagerTest, DrainRateCountsSupersededBlocks) {
  constexpr int kVersions = 30;
  for (int version = 0; version < kVersions; ++version) {
    for (uint64_t block = 0; block < 6; ++block) Append(block);
  }

  const absl::StatusOr<bool> ran = destager_->RunBatch({});

  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_EQ(destager_->counters().blocks, 6u);
  // The store takes 1 ms; all but the segment in use came back.
  const double moved_bytes_per_s = 6 * kBlockBytes * 1e3;
  EXPECT_GT(destager_->drain_bytes_per_s(), 0.8 * kVersions * moved_bytes_per_s);
  EXPECT_LT(destager_->drain_bytes_per_s(), 1.2 * kVersions * moved_bytes_per_s);
}

// Goal: a codec that cannot keep up is left out while the log is nearly full, is back when there is
// room, and every block that went without is counted.
TEST_F(BareDestagerTest, ASlowCodecIsLeftOutWhileBehind) {
  uint64_t block = 0;
  const auto run = [&](bool behind) {
    Append(block++);
    Destager::Batch batch;
    batch.store.compression = Compression::kZstd3;
    batch.behind = behind;
    const absl::StatusOr<bool> ran = destager_->RunBatch(batch);
    ASSERT_TRUE(ran.ok()) << ran.status();
    ASSERT_TRUE(*ran);
  };
  for (int i = 0; i < 10; ++i) run(/*behind=*/true);
  run(/*behind=*/false);

  ASSERT_EQ(compressed_.size(), 11u);
  EXPECT_TRUE(compressed_[0]);
  for (size_t i = 1; i < 10; ++i) EXPECT_FALSE(compressed_[i]) << i;
  EXPECT_TRUE(compressed_[10]);
  EXPECT_EQ(destager_->counters().unreduced_blocks, 9u);
}

}  // namespace
}  // namespace ebb::storage
