// VolumeImpl ties the parts of the store together behind Volume: log, read cache, capacity tier,
// destager and their policies.
//
// Every verb is a plan under the log's lock, I/O without it, and a completion under it again, so
// that an asynchronous front end can run the three apart. volume_read.cc and volume_write.cc hold
// the verbs, background.cc what happens between them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "storage-backend/capacity/capacity_tier.h"
#include "storage-backend/destage/destager.h"
#include "storage-backend/log/cache_log.h"
#include "storage-backend/metadata/metadata_store.h"
#include "storage-backend/policy/destage_pacing.h"
#include "storage-backend/policy/stream_detector.h"
#include "storage-backend/policy/stuck_detector.h"
#include "storage-backend/policy/write_throttle.h"
#include "storage-backend/volume/device_watch.h"
#include "storage-backend/volume/node_devices.h"
#include "storage-backend/volume/op_stats.h"
#include "storage-backend/volume/read_cache.h"
#include "storage-backend/volume/scrubber.h"
#include "storage-backend/volume/volume.h"

namespace ebb::storage {

// The parts of a volume; a test may put another capacity tier in, or a UUID that repeats.
struct VolumeParts {
  std::unique_ptr<Device> cache;
  std::vector<std::unique_ptr<Device>> capacity;
  std::unique_ptr<MetadataStore> metadata;
  std::function<absl::StatusOr<std::unique_ptr<CapacityTier>>(std::vector<Device*>, MetadataStore*,
                                                              const Uuid&)>
      open_tier;
  std::function<Uuid()> make_uuid = MakeUuid;
};

class VolumeImpl final : public Volume {
 public:
  static absl::StatusOr<std::unique_ptr<VolumeImpl>> Open(
      const VolumeConfig& config, VolumeParts parts, Clock& clock,
      const std::function<void(double)>& progress);
  ~VolumeImpl() override;

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override;
  absl::Status Write(uint64_t offset, std::span<const std::byte> in, bool fua) override;
  absl::Status WriteZeroes(uint64_t offset, uint64_t bytes, bool fua) override;
  absl::Status Trim(uint64_t offset, uint64_t bytes, bool fua) override;
  absl::Status Flush() override;
  absl::Status Apply(const Setting& setting) override;
  Setting CurrentSetting() const override;
  VolumeMetrics Metrics() override;
  std::vector<VolumeNotice> CheckHealth() override;
  absl::Status Drain(const std::function<bool(uint64_t dirty_bytes)>& progress) override;
  absl::StatusOr<bool> RunBackgroundStep() override;
  absl::Status Close() override;
  uint64_t volume_bytes() const override { return identity_.volume_bytes; }
  std::string Describe() const override;
  std::string uuid() const override { return FormatUuid(identity_.uuid); }

  std::unique_ptr<RequestQueue> MakeQueue(size_t depth) override;

 private:
  friend class VolumeQueue;

  // --- reads ---
  enum class Source : uint8_t { kDram, kLog, kCapacity, kZeroes, kLost };
  struct BlockPlan {
    Source source = Source::kZeroes;
    uint32_t generation = 0;
    uint32_t crc32c = 0;              // of what was read, when it is to be kept
    CacheLog::Place place;            // of kLog
    ReadCache::Slot* slot = nullptr;  // of kDram: pinned
    ReadCache::Slot* fill = nullptr;  // where the block is to be kept
  };
  struct ReadPlan {
    uint64_t first_block = 0;
    uint32_t wanted = 0;  // blocks the client asked for; more are readahead
    bool keeps = false;   // some block has a slot to fill
    bool copies = false;  // blocks of the capacity tier are worth a copy on the cache device
    std::vector<BlockPlan> blocks;
  };
  // Blocks [begin, end) of a plan that come from one place: side by side on the cache device, or
  // from the capacity tier.
  struct ReadRun {
    size_t begin = 0;
    size_t end = 0;
    std::byte* data = nullptr;
    Io io;
  };
  // Memory of one read in progress, kept for the next.
  struct ReadScratch {
    ReadPlan plan;
    std::vector<ReadRun> runs;
    std::unique_ptr<IoQueue> queue;  // for several runs at once; made when first needed
    AlignedBuffer bounce;
    AlignedBuffer block;  // for partial blocks
    std::unique_ptr<bool[]> mapped;
    std::vector<uint32_t> generations;
  };
  static constexpr uint64_t kOverlayRangesMax = 1 << 16;  // trims wait for destage beyond
  // Blocks throttled, checked for space and appended in one go.
  static constexpr uint64_t kWriteBlocksMax = 256;
  static constexpr uint32_t kReadBlocksMax = 256;  // a longer read is done in pieces

  absl::Status ReadBytes(uint64_t offset, std::span<std::byte> out, ReadSources* sources);
  absl::Status ReadBlocks(uint64_t first_block, std::span<std::byte> out, bool client,
                          ReadScratch& scratch, ReadSources* sources);
  void PlanRead(uint64_t first_block, uint32_t count, bool client, ReadPlan& plan);
  // Adds blocks to fetch ahead; false when the stream is to leave no copies.
  bool PlanReadahead(ReadPlan& plan);
  void PlanKeeping(ReadPlan& plan);
  absl::Status ExecuteRead(ReadPlan& plan, std::span<std::byte> out, ReadScratch& scratch);
  // Copies what is in memory to `out` and cuts the rest into runs.
  absl::Status CopyAndCut(ReadPlan& plan, std::span<std::byte> out, ReadScratch& scratch);
  // Reads the runs that are on the cache device, all at once.
  void ReadFromCache(const ReadPlan& plan, ReadScratch& scratch);
  // What is left once ReadFromCache is done: verifies, reads from the capacity tier, copies.
  absl::Status FinishRuns(ReadPlan& plan, std::span<std::byte> out, ReadScratch& scratch);
  // Gives back what the plan holds, keeps what is worth keeping, and counts.
  void EndRead(const absl::Status& status, ReadScratch& scratch, ReadSources* sources);
  // Verifies a run of the cache device; what is damaged there and clean comes from below.
  absl::Status FinishCacheRun(ReadPlan& plan, ReadRun& run);
  absl::Status ReadFromCapacity(ReadPlan& plan, ReadRun& run, ReadScratch& scratch);
  // Copies into the slots that are to keep the run's blocks.
  void FillSlots(ReadPlan& plan, const ReadRun& run);
  // Appends what came from the capacity tier to the log as clean copies.
  void CopyToCache(ReadScratch& scratch);
  // Publishes filled slots unless their block changed since the plan was made; unpins everything.
  void FinishPlan(ReadPlan& plan, bool ok);
  void UnpinBlock(BlockPlan& plan);
  absl::Status CheckBlock(const BlockPlan& plan, uint64_t block, uint32_t crc32c);
  std::unique_ptr<ReadScratch> TakeScratch();
  void GiveScratch(std::unique_ptr<ReadScratch> scratch);

  // --- writes ---
  absl::Status WriteBytes(uint64_t offset, std::span<const std::byte> in, uint64_t now_ns,
                          uint64_t* sequence);
  absl::Status WriteBlocks(uint64_t first_block, std::span<const std::byte> data, uint64_t now_ns,
                           uint64_t* sequence);
  // Appends leading blocks of `data`, which has kWriteBlocksMax at most, and never waits for room:
  // the number taken, 0 when there is none. The throttle was asked before.
  absl::StatusOr<uint32_t> AppendSome(uint64_t first_block, std::span<const std::byte> data,
                                      uint64_t now_ns, uint64_t* sequence);
  // Merges `in` into one block; `in` empty: zeroes [begin, begin + bytes) of it.
  absl::Status MergeBlock(uint64_t block, uint32_t begin, uint32_t bytes,
                          std::span<const std::byte> in, uint64_t* sequence);
  absl::Status AppendRange(EntryKind kind, uint64_t first_block, uint64_t count,
                           uint64_t* sequence);
  absl::Status WriteZeroBytes(uint64_t offset, uint64_t bytes, uint64_t* sequence);
  // Until when the throttle holds back a write of so many bytes, which counts as admitted; 0: not
  // at all.
  uint64_t HoldUntilNs(uint64_t bytes);
  void Throttle(uint64_t bytes);
  // A write of whole blocks that was held back as long as it had to be.
  // ResourceExhausted when these blocks, now to be dirty, could not be destaged any more.
  absl::Status CheckSpace(uint64_t first_block, uint64_t blocks);
  // Waits for, or makes, room in a full log.
  absl::Status MakeRoom(uint64_t waiting_since_ns);
  absl::Status CheckRange(uint64_t offset, uint64_t bytes) const;
  absl::Status Finish(Op op, uint64_t bytes, uint64_t begin_ns, absl::Status status);

  // --- background ---
  void BackgroundLoop();
  uint64_t BatchBytes() const;  // of destage while clients are busy
  void Kick();
  StoreOptions CurrentStoreOptions() const;
  // `quiet`: no client waits.
  absl::StatusOr<bool> DestageStep(double keep_fill, bool quiet);
  // Grows or shrinks the read cache a little toward its target; false when it is there.
  bool ResizeReadCacheStep(size_t chunks_max);
  // How a step of the background went.
  void NoteBackground(const absl::StatusOr<bool>& result);

  VolumeImpl(const VolumeConfig& config, VolumeParts parts, Clock& clock);
  absl::Status Start(const std::function<void(double)>& progress);
  void Notice(VolumeNotice::Kind kind, std::string text);
  // Why nothing moves, as far as it is known.
  std::string StuckReason();

  const VolumeConfig config_;
  Clock& clock_;
  VolumeParts parts_;  // devices and metadata outlive all that follows
  DeviceWatch watch_;  // of these devices
  NodeDevices devices_;
  NodeDevices::Identity identity_;
  std::unique_ptr<CapacityTier> tier_;
  std::unique_ptr<CacheLog> log_;
  std::unique_ptr<Destager> destager_;
  OpStats stats_;

  // Guarded by log_->mutex(), so that a block is looked up everywhere in one step.
  ReadCache read_cache_;
  StreamDetector streams_;

  mutable std::mutex setting_mutex_;
  Setting setting_;
  // The knobs that requests look at, without the lock.
  std::atomic<uint32_t> readahead_blocks_{0};
  std::atomic<uint64_t> sequential_bypass_bytes_{0};
  std::atomic<int> throttle_softness_{0};
  std::atomic<int> destage_watermark_{0};

  std::mutex throttle_mutex_;
  WriteThrottle throttle_;
  std::atomic<uint64_t> admitting_blocks_{0};  // checked for space, not yet in the log
  std::atomic<uint64_t> checksum_errors_{0};
  std::atomic<uint64_t> read_errors_{0};

  std::mutex scratch_mutex_;
  std::vector<std::unique_ptr<ReadScratch>> scratches_;

  std::mutex step_mutex_;  // one background step at a time
  DestagePacing pacing_;
  std::mutex background_mutex_;
  std::condition_variable background_wake_;
  bool kicked_ = false;
  absl::Status background_error_;  // of the last destage batch
  absl::StatusCode told_background_ = absl::StatusCode::kOk;
  std::atomic<int> drains_{0};
  std::atomic<bool> stopping_{false};
  bool closed_ = false;
  std::thread background_;

  static constexpr uint64_t kStuckAfterNs = 30'000'000'000;
  std::mutex notices_mutex_;
  std::vector<VolumeNotice> notices_;
  StuckDetector stuck_{kStuckAfterNs};  // of the caller of CheckHealth
  std::atomic<bool> destage_stuck_{false};
  std::unique_ptr<Scrubber> scrubber_;
};

}  // namespace ebb::storage
