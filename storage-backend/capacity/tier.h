// Tier is the CapacityTier: segments, extents, units and the tables that find them.
//
// Life of a batch (Store): verify, fingerprint, look duplicates up, compress, pack into extents,
// write them to the devices, flush the devices, commit the map durably, free what died. Everything
// before the commit is invisible; everything after it only tidies up. A commit that fails leaves
// the outcome unknown, so the tier then refuses all further changes until it is opened again.
//
// Readers and the writer meet in four places: the metadata store (whole batches), BlockMap and
// UnitCache (versions) and ReadPins (segments are not reused under a reader).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "storage-backend/capacity/block_map.h"
#include "storage-backend/capacity/capacity_tier.h"
#include "storage-backend/capacity/extent_writer.h"
#include "storage-backend/capacity/layout.h"
#include "storage-backend/capacity/map_journal.h"
#include "storage-backend/capacity/map_transaction.h"
#include "storage-backend/capacity/read_pins.h"
#include "storage-backend/capacity/records.h"
#include "storage-backend/capacity/segment_table.h"
#include "storage-backend/capacity/unit_cache.h"
#include "storage-backend/metadata/metadata_store.h"
#include "storage-backend/reduce/compression_pool.h"
#include "storage-backend/reduce/compressor.h"
#include "storage-backend/reduce/fingerprint.h"

namespace ebb::storage {

class Tier final : public CapacityTier {
 public:
  // `format` and `totals` are what the metadata says; segments are loaded by Load.
  Tier(std::vector<Device*> devices, MetadataStore* metadata, FormatRecord format,
       TotalsRecord totals, const CapacityTuning& tuning);
  // tier.cc
  absl::Status Load();
  absl::Status Remove(uint64_t first_block, uint64_t count) override;
  CapacityUsage Usage() override;
  uint64_t FreeBytes() override { return free_bytes_.load(); }
  // tier_store.cc
  absl::Status Store(std::span<const StoreBlock> blocks, const StoreOptions& options,
                     StoreReport* report, const std::function<bool()>& keep_going) override;
  // tier_read.cc
  absl::Status Read(uint64_t first_block, uint64_t count, std::byte* out,
                    std::span<bool> mapped) override;
  // tier_compact.cc
  absl::StatusOr<bool> CompactStep() override;
  // tier_check.cc
  absl::StatusOr<std::vector<std::string>> Check() override;

 private:
  struct Wanted;       // a block to read, with its place in the map
  struct StoreBatch;   // what Store carries from step to step
  struct MovingUnit;   // a unit that compaction moves
  struct MovingBlock;  // a direct block that it moves
  struct Moving;       // all that one step moves

  absl::Status CheckWritable() const;
  std::string Place(uint8_t device, uint64_t offset) const;
  // Commits what `transaction` gathered; afterwards freed segments wait for readers.
  absl::Status CommitChanges(MapTransaction& transaction);
  // Adds the journal's record to `batch`, and what is written back so that the journal stays short.
  // Returns the record's bytes; `first` becomes the oldest record that is kept.
  uint64_t AddToJournal(MapTransaction& transaction, MetadataBatch& batch, uint64_t& first);
  absl::Status LoadSegments();
  absl::Status ReplayMap(std::span<const MapChange> changes, uint64_t sequence);
  absl::Status RemoveFromPages(std::span<const uint64_t> pages, uint64_t first, uint64_t end);
  // Gives freed segments back that no reader can be on its way to; waits for readers when `wait`.
  void ReleaseFreed(bool wait);
  void PublishUsage();
  void DiscardLeftovers();

  absl::Status StoreLocked(std::span<const StoreBlock> blocks, const StoreOptions& options,
                           StoreReport& report, const std::function<bool()>& keep_going);
  absl::Status MakeRoom(uint64_t blocks);
  // tier_dedup.cc
  absl::Status FindDuplicates(StoreBatch& batch);
  absl::Status LookUp(StoreBatch& batch);
  absl::Status FollowRuns(StoreBatch& batch);
  // Guesses what the blocks on one side of a known one are.
  absl::Status WalkFrom(StoreBatch& batch, size_t known, bool forward,
                        std::vector<MapEntry>& guesses);
  // Makes the guesses of `run` that are right entries.
  void ReadBack(StoreBatch& batch, std::span<const size_t> run,
                const std::vector<MapEntry>& guesses);
  static void CompareWithinBatch(StoreBatch& batch);
  static std::vector<BlockFingerprint> FingerprintsOf(const StoreBatch& batch,
                                                      std::span<const size_t> unit);
  // tier_store.cc
  size_t UnitBlocks(const StoreBatch& batch) const;
  absl::Status PackUniques(StoreBatch& batch);
  absl::Status PackReduced(StoreBatch& batch, std::span<const size_t> uniques);
  absl::Status PackCompressed(StoreBatch& batch, std::span<const size_t> unit,
                              std::span<const std::byte> stored);
  absl::Status PackRaw(StoreBatch& batch, std::span<const size_t> unit);
  absl::Status PackDirect(StoreBatch& batch, std::span<const size_t> blocks);

  // `entries`: memory for the map's.
  absl::Status ReadPiece(uint64_t first_block, std::span<MapEntry> entries, std::byte* out,
                         std::span<bool> mapped);
  // Reads direct blocks that lie side by side, into `out`.
  absl::Status ReadRun(uint64_t first_block, std::span<const MapEntry> run, std::byte* out);
  absl::StatusOr<std::vector<Wanted>> Resolve(uint64_t first_block,
                                              std::span<const MapEntry> entries,
                                              uint64_t change_count);
  absl::Status ResolveUnits(std::vector<Wanted>& wanted, uint64_t& change_count);
  absl::Status LoadMissing(std::vector<Wanted>& wanted);
  absl::Status ReadPlaced(const std::vector<Wanted>& wanted, std::byte* out);
  absl::Status Deliver(const std::vector<Wanted>& wanted, std::span<const size_t> group,
                       std::span<const std::byte> stored, std::byte* out) const;
  absl::Status CheckBlock(uint64_t block, uint32_t crc32c, uint8_t device, uint64_t offset,
                          const std::byte* bytes) const;

  // `urgent`: any gain counts.
  absl::StatusOr<bool> CompactLocked(bool urgent);
  // Adds what lives in `id`.
  absl::Status FindLive(SegmentId id, MapTransaction& transaction, Moving& moving);
  absl::Status ReadMoving(Moving& moving);
  absl::Status Move(Moving& moving, MapTransaction& transaction);
  // Verifies a unit's stored bytes and turns them into what is to be written; false: damaged.
  bool Repack(MovingUnit& moving, std::span<const std::byte> stored);

  struct Recount;  // what Check derives from the map
  absl::Status ReadJournal(Recount& recount);
  absl::Status RecountMap(Recount& recount);
  void CountEntry(uint64_t block, const MapEntry& entry, Recount& recount);
  absl::Status CheckUnits(Recount& recount);
  absl::Status CheckSegments(Recount& recount);
  void CheckSegment(SegmentId id, const SegmentRecord& record, ExtentContent& listed,
                    Recount& recount);
  absl::Status CheckFingerprints(Recount& recount);

  const std::vector<Device*> devices_;
  MetadataStore* const metadata_;
  const FormatRecord format_;
  const CapacityLayout layout_;
  const CapacityTuning tuning_;

  ReadPins pins_;
  BlockMap map_;
  // Odd while a commit is on its way from the metadata to map_ and cache_: a reader that finds
  // them at odds looks again.
  std::atomic<uint64_t> change_count_{0};
  UnitCache cache_;
  std::atomic<uint64_t> free_bytes_{0};
  std::mutex usage_mutex_;
  CapacityUsage usage_;

  // Below: of the one thread that changes things, under this lock.
  std::mutex change_mutex_;
  absl::Status broken_;  // why nothing may be changed any more
  TotalsRecord totals_;
  MapJournal journal_;
  SegmentTable segments_;
  std::vector<std::pair<SegmentId, uint64_t>> freed_;  // with ReadPins' tag
  ExtentWriter writer_;
  CompressionPool pool_;   // of Store
  Compressor compressor_;  // of compaction
  Fingerprinter fingerprinter_;
  std::vector<std::byte> raw_unit_;     // a unit's blocks, one after the other
  std::vector<std::byte> stored_unit_;  // the same compressed
  AlignedBuffer moving_blocks_;         // of compaction; grows, because a first touch is dear
  AlignedBuffer read_back_;             // of FollowRuns; none until it is needed
};

}  // namespace ebb::storage
