// What happens between requests: destage, release of segments, compaction, the scrubber.
//
// One background thread, as the node has: a chain of stages, each of which ends by saying when the
// next begins (WakeBackground). A newer wake-up makes an older one void.
#include <algorithm>
#include <utility>

#include "base/units.h"
#include "env/twin/simulator.h"
#include "storage-backend/policy/background_pace.h"
#include "storage-backend/policy/compaction_pacing.h"

namespace ebb::twin {
namespace {

using storage::KnobId;

constexpr double kBatchMemory = 0.7;  // as destager.cc
constexpr size_t kRunBlocksMax = 256;
constexpr size_t kRunsAStep = 2;  // read ahead at an extent's end
constexpr int kCompactionParallelism = 2;
constexpr uint64_t kLoopNs = 5 * kNsPerUs;  // one turn of the background's loop
constexpr size_t kExtentsInFlightMax = 32;

}  // namespace

void Simulator::WakeBackground(uint64_t now_ns, Stage stage) {
  stage_ = stage;
  sleeping_ = false;
  events_.Add(now_ns, kBackground, ++background_generation_);
}

void Simulator::Kick(uint64_t now_ns) {
  if (sleeping_) WakeBackground(now_ns, Stage::kDecide);
}

void Simulator::Background(uint64_t now_ns) {
  switch (stage_) {
    case Stage::kDecide:
      return Decide(now_ns);
    case Stage::kFlushed:
      return CollectBatch(now_ns);
    case Stage::kReleaseAfterFlush:
      ReleaseClean(now_ns);
      return WakeBackground(now_ns + kLoopNs, Stage::kDecide);
    case Stage::kRead:
    case Stage::kCompactRead:
      return BatchRead(now_ns);
    case Stage::kReadBack:
      return ReadBack(now_ns);
    case Stage::kPack:
      return PackNext(now_ns);
    case Stage::kExtent:
      return WriteExtent(now_ns);
    case Stage::kWritten:
      return FlushCapacity(now_ns);
    case Stage::kCommit:
      return CommitBatch(now_ns);
    case Stage::kCommitted:
      return EndBatch(now_ns);
    case Stage::kBatchFlushed:
      return FinishBatch(now_ns);
  }
}

void Simulator::Decide(uint64_t now_ns) {
  cpu_.BackgroundIdle();
  const uint64_t policy_ns = PolicyNs(now_ns);
  log_.CloseOld(now_ns, now_ns > storage::kGroupAgeNs ? now_ns - storage::kGroupAgeNs : 0);
  if (reads_ + writes_ != requests_seen_) last_request_ns_ = policy_ns;
  requests_seen_ = reads_ + writes_;
  const auto decision = pacing_.Decide(
      {.now_ns = policy_ns,
       .fill = log_.fill(),
       .fill_per_s = fill_rate_.Update(policy_ns, log_.appended_blocks(), log_.write_space_bytes()),
       .has_work = log_.has_work(),
       .drain = false,
       .watermark_percent = watermark_,
       .politeness = static_cast<int>(setting_[KnobId::kDestagePoliteness]),
       .reads = reads_,
       .writes = writes_});
  if (decision.run) {
    batch_begin_ns_ = now_ns;
    batch_keep_fill_ = decision.keep_fill;
    batch_quiet_ = policy_ns - last_request_ns_ > storage::kQuietNs;
    return BeginBatch(now_ns);
  }
  if (log_.WantsFlush()) {
    stage_ = Stage::kReleaseAfterFlush;
    return RequestFlush(kBackgroundFlush, now_ns);
  }
  if (ReleaseClean(now_ns)) return WakeBackground(now_ns + kLoopNs, Stage::kDecide);
  const auto politeness = static_cast<int>(setting_[KnobId::kCompactionPoliteness]);
  if (policy_ns - last_request_ns_ >= storage::CompactionIdleNs(politeness) &&
      BeginCompaction(now_ns, /*urgent=*/false)) {
    return;
  }
  Wait(now_ns, std::max(decision.wait_ns, kNsPerMs));
}

void Simulator::Wait(uint64_t now_ns, uint64_t policy_wait_ns) {
  uint64_t wake_ns = now_ns + NodeToSimulated(policy_wait_ns);
  if (const uint64_t opened_ns = log_.CloseOld(now_ns, 0); opened_ns != 0) {
    const uint64_t due_ns = opened_ns + storage::kGroupAgeNs;
    wake_ns = std::min(wake_ns, due_ns > now_ns ? due_ns : now_ns + kNsPerMs);
  }
  WakeBackground(wake_ns, Stage::kDecide);
  sleeping_ = true;
}

bool Simulator::ReleaseClean(uint64_t now_ns) {
  const LogModel::Released released = log_.ReleaseClean();
  if (first_waiting_ < waiting_for_room_.size()) RetryWaiting(now_ns);
  return released.advanced || released.segments > 0;
}

void Simulator::BeginBatch(uint64_t now_ns) {
  batch_behind_ = log_.fill() > storage::kBehindFill;
  batch_choice_ = CurrentChoice();
  batch_reduced_ = !batch_choice_.reduces() || reduction_.Reduce(batch_behind_);
  if (!batch_reduced_) {
    batch_choice_.compression = storage::Compression::kOff;
    batch_choice_.dedup = storage::Dedup::kOff;
  }
  if (batch_quiet_) {
    batch_choice_.parallelism = std::max(batch_choice_.parallelism, storage::kQuietParallelism);
  }
  batch_flushed_ = false;
  CollectBatch(now_ns);
}

// Tells the capacity tier of trims; true when there were any.
bool Simulator::ApplyRanges(uint64_t) {
  bool any = false;
  for (const LogModel::Range& range : log_.TakeRanges()) {
    any = true;
    for (uint32_t block = range.first; block < range.first + range.count; ++block) {
      // What was written since is not zeroed any more and keeps its place until it is destaged.
      if (!IsZeroed(table_[block])) continue;
      table_[block].dram &= ~kZeroed;
      capacity_.Unmap(block);
    }
  }
  return any;
}

void Simulator::CollectBatch(uint64_t now_ns) {
  const bool ranges = ApplyRanges(now_ns);
  if (ranges) {
    now_ns += static_cast<uint64_t>(node_.metadata.commit_ns +
                                    node_.metadata.commit_byte_ns * capacity_.CommitTrim());
  }
  uint64_t bytes = storage::DestagePacing::BatchBytes(
      static_cast<uint64_t>(setting_[KnobId::kDestageBatchBytes]),
      static_cast<uint64_t>(static_cast<double>(log_.write_space_bytes()) * divisor_));
  if (batch_quiet_) bytes = storage::QuietBatchBytes(bytes);
  // A batch of a sample must not take a larger part of its log than any may.
  const uint64_t part = std::max<uint64_t>(log_.write_space_bytes() / 6, 256 * kKiB);
  const size_t count = std::max<size_t>(std::min(bytes, part) / kBlockBytes, 1);
  chosen_.clear();
  const bool held_back = log_.CollectDirty(2 * count, batch_keep_fill_, chosen_);
  if (chosen_.empty()) {
    if (!batch_flushed_ && (held_back || !ranges)) {
      batch_flushed_ = true;
      stage_ = Stage::kFlushed;
      return RequestFlush(kBackgroundFlush, now_ns);
    }
    ReleaseClean(now_ns);
    pacing_.OnBatchDone(PolicyNs(batch_begin_ns_), PolicyNs(now_ns));
    return Wait(now_ns, kNsPerMs);
  }
  // Read what was not read ahead, and remember the next batch.
  const size_t middle = std::min(count, chosen_.size());
  batch_dirty_.assign(chosen_.begin(), chosen_.begin() + static_cast<ptrdiff_t>(middle));
  uint64_t done_ns = std::max(StartAhead(now_ns, ahead_.blocks.size()), ahead_.done_ns);
  size_t next = 0;
  for (size_t i = 0; i < batch_dirty_.size();) {
    // Both in the order of the log.
    size_t at = next;
    while (at < ahead_.blocks.size() && at < next + kRunBlocksMax &&
           ahead_.blocks[at].cache_block != batch_dirty_[i].cache_block) {
      ++at;
    }
    if (at < ahead_.blocks.size() && at < next + kRunBlocksMax) {
      next = at + 1;
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < batch_dirty_.size() && end - i < kRunBlocksMax &&
           batch_dirty_[end].cache_block == batch_dirty_[end - 1].cache_block + 1) {
      ++end;
    }
    done_ns = std::max(done_ns, ReadDirty(batch_dirty_, i, end, now_ns));
    i = end;
  }
  ahead_.blocks.assign(chosen_.begin() + static_cast<ptrdiff_t>(middle), chosen_.end());
  ahead_.started = 0;
  ahead_.done_ns = 0;
  WakeBackground(std::max(done_ns, now_ns), Stage::kRead);
}

uint64_t Simulator::ReadDirty(const std::vector<LogModel::DirtyBlock>& blocks, size_t begin,
                              size_t end, uint64_t now_ns) {
  return cache_->CompletionNs(
      now_ns, {storage::Io::Kind::kRead, uint64_t{blocks[begin].cache_block} * kBlockBytes,
               (end - begin) * kBlockBytes});
}

// Starts transfers of at most so many blocks (whole runs) of the next batch.
uint64_t Simulator::StartAhead(uint64_t now_ns, size_t runs_max) {
  const std::vector<LogModel::DirtyBlock>& blocks = ahead_.blocks;
  for (size_t runs = 0; runs < runs_max && ahead_.started < blocks.size(); ++runs) {
    size_t end = ahead_.started + 1;
    while (end < blocks.size() && end - ahead_.started < kRunBlocksMax &&
           blocks[end].cache_block == blocks[end - 1].cache_block + 1) {
      ++end;
    }
    ahead_.done_ns = std::max(ahead_.done_ns, ReadDirty(blocks, ahead_.started, end, now_ns));
    ahead_.started = end;
  }
  return now_ns;
}

void Simulator::BatchRead(uint64_t now_ns) {
  extents_in_flight_.clear();
  std::fill(device_written_.begin(), device_written_.end(), false);
  if (stage_ == Stage::kCompactRead) {
    if (!compaction_reads_.empty()) {
      const Transfer transfer = compaction_reads_.back();
      compaction_reads_.pop_back();
      return WakeBackground(
          capacity_devices_[transfer.device]->CompletionNs(
              now_ns, {storage::Io::Kind::kRead, transfer.offset, transfer.bytes}),
          Stage::kCompactRead);
    }
    return WakeBackground(now_ns, Stage::kPack);
  }
  if (!capacity_.HasRoomFor(batch_dirty_.size())) {
    resume_batch_ = BeginCompaction(now_ns, /*urgent=*/true);
    if (resume_batch_) return;
  }
  FillBatch(batch_dirty_);
  const double cpu_ns = capacity_.BeginBatch(batch_blocks_, batch_choice_);
  next_read_back_ = 0;
  WakeBackground(now_ns + BackgroundNs(cpu_ns, 0, 1), Stage::kReadBack);
}

// Guesses of sampled deduplication are read before they are shared, one transfer after the other.
void Simulator::ReadBack(uint64_t now_ns) {
  if (next_read_back_ == capacity_.read_back().size()) return PackNext(now_ns);
  const Transfer& transfer = capacity_.read_back()[next_read_back_++];
  WakeBackground(capacity_devices_[transfer.device]->CompletionNs(
                     now_ns, {storage::Io::Kind::kRead, transfer.offset, transfer.bytes}),
                 Stage::kReadBack);
}

void Simulator::FillBatch(std::span<const LogModel::DirtyBlock> dirty_blocks) {
  batch_blocks_.clear();
  for (const LogModel::DirtyBlock& dirty : dirty_blocks) {
    const LogModel::Content& content = log_.At(dirty.cache_block);
    batch_blocks_.push_back({.block = dirty.block,
                             .cache_block = dirty.cache_block,
                             .content = content.content,
                             .compressed_per_mille = content.compressed_per_mille});
  }
  SortByPlace(batch_blocks_);
}

void Simulator::SortByPlace(std::vector<CapacityModel::BatchBlock>& blocks) {
  sort_keys_.clear();
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    sort_keys_.push_back(load_.PlaceOf(blocks[i].block) << 20 | i);
  }
  std::sort(sort_keys_.begin(), sort_keys_.end());
  sorted_blocks_.clear();
  for (const uint64_t key : sort_keys_) sorted_blocks_.push_back(blocks[key & 0xfffff]);
  blocks.swap(sorted_blocks_);
}

uint64_t Simulator::BackgroundNs(double serial_ns, double parallel_ns, int threads) {
  const int useful = std::clamp(threads, 1, node_.cores);
  uint64_t took_ns = cpu_.Background(now_ns_, serial_ns, 1);
  if (parallel_ns > 0) took_ns += cpu_.Background(now_ns_, parallel_ns, useful);
  return took_ns;
}

void Simulator::PackNext(uint64_t now_ns) {
  bool full = false;
  if (!capacity_.NextExtent(extent_, full)) {
    // Full devices: what fits was stored, the rest stays dirty. The next batch compacts first.
    uint64_t written_ns = now_ns;
    for (const uint64_t done_ns : extents_in_flight_) written_ns = std::max(written_ns, done_ns);
    return WakeBackground(written_ns, Stage::kWritten);
  }
  const int parallelism = compacting_ ? kCompactionParallelism : batch_choice_.parallelism;
  const size_t limit = std::min<size_t>(static_cast<size_t>(parallelism) * capacity_devices_.size(),
                                        kExtentsInFlightMax);
  uint64_t begin_ns = now_ns;
  std::erase_if(extents_in_flight_, [now_ns](uint64_t done_ns) { return done_ns <= now_ns; });
  if (extents_in_flight_.size() >= limit) {
    const auto first = std::min_element(extents_in_flight_.begin(), extents_in_flight_.end());
    begin_ns = *first;
    extents_in_flight_.erase(first);
  }
  WakeBackground(begin_ns + BackgroundNs(extent_.serial_ns, extent_.parallel_ns, parallelism),
                 Stage::kExtent);
}

void Simulator::WriteExtent(uint64_t now_ns) {
  const Transfer& write = extent_.write;
  extents_in_flight_.push_back(capacity_devices_[write.device]->CompletionNs(
      now_ns, {storage::Io::Kind::kWrite, write.offset, write.bytes}));
  device_written_[write.device] = true;
  if (!compacting_) StartAhead(now_ns, kRunsAStep);
  PackNext(now_ns);
}

void Simulator::FlushCapacity(uint64_t now_ns) {
  cpu_.BackgroundIdle();
  uint64_t flushed_ns = now_ns;
  for (size_t i = 0; i < capacity_devices_.size(); ++i) {
    if (!device_written_[i]) continue;
    flushed_ns = std::max(
        flushed_ns, capacity_devices_[i]->CompletionNs(now_ns, {storage::Io::Kind::kFlush, 0, 0}));
  }
  WakeBackground(flushed_ns, Stage::kCommit);
}

void Simulator::CommitBatch(uint64_t now_ns) {
  const CapacityModel::CommitCost cost = capacity_.CommitBatch();
  const auto metadata_ns = static_cast<uint64_t>(
      node_.metadata.commit_ns + node_.metadata.commit_byte_ns * cost.metadata_bytes);
  WakeBackground(now_ns + BackgroundNs(cost.cpu_ns, 0, 1) + metadata_ns, Stage::kCommitted);
}

void Simulator::EndBatch(uint64_t now_ns) {
  if (compacting_) {
    compacting_ = false;
    ++window_.compaction_steps;
    if (std::exchange(resume_batch_, false)) return WakeBackground(now_ns, Stage::kRead);
    return WakeBackground(now_ns + kLoopNs, Stage::kDecide);
  }
  if (!capacity_.stored_all()) {
    // Full devices: the blocks stay dirty, and the background tries again later.
    ahead_ = {};
    return WakeBackground(now_ns + NodeToSimulated(kNsPerS), Stage::kDecide);
  }
  for (const LogModel::DirtyBlock& dirty : batch_dirty_) log_.MarkClean(dirty);
  if (log_.WantsFlush()) {
    stage_ = Stage::kBatchFlushed;
    return RequestFlush(kBackgroundFlush, now_ns);
  }
  FinishBatch(now_ns);
}

void Simulator::FinishBatch(uint64_t now_ns) {
  uint64_t end_ns = now_ns;
  const LogModel::Released released = log_.ReleaseClean();
  // The durable tail moves before segments are used again.
  if (released.segments > 0) end_ns += static_cast<uint64_t>(node_.metadata.commit_ns);
  if (first_waiting_ < waiting_for_room_.size()) RetryWaiting(end_ns);
  const uint64_t took_ns = std::max<uint64_t>(end_ns - batch_begin_ns_, 1);
  if (batch_behind_ && CurrentChoice().reduces()) {
    reduction_.Done(batch_reduced_, batch_dirty_.size(), took_ns);
  }
  CountBatch(took_ns);
  pacing_.OnBatchDone(PolicyNs(batch_begin_ns_), PolicyNs(end_ns));
  WakeBackground(end_ns + kLoopNs, Stage::kDecide);
}

void Simulator::CountBatch(uint64_t took_ns) {
  ++window_.destage_batches;
  window_.metrics.destaged_bytes += batch_dirty_.size() * kBlockBytes;
  const auto add = [](double& sum, double value) { sum = kBatchMemory * sum + value; };
  add(lately_.moved_bytes, static_cast<double>(batch_dirty_.size() * kBlockBytes));
  add(lately_.freed_bytes, static_cast<double>(log_.cleaned_bytes() - cleaned_seen_));
  add(lately_.seconds, static_cast<double>(took_ns) / 1e9);
  cleaned_seen_ = log_.cleaned_bytes();
  drain_bytes_per_s_ = std::max(lately_.moved_bytes, lately_.freed_bytes) / lately_.seconds;
}

bool Simulator::BeginCompaction(uint64_t now_ns, bool urgent) {
  compaction_reads_.clear();
  if (!capacity_.BeginCompaction(urgent, compaction_reads_)) return false;
  std::reverse(compaction_reads_.begin(), compaction_reads_.end());
  compacting_ = true;
  WakeBackground(now_ns, Stage::kCompactRead);
  return true;
}

// Reads a piece of the volume from wherever it lies, as fast as the knob says.
void Simulator::Scrub(uint64_t now_ns) {
  const auto rate_mibps = static_cast<uint64_t>(setting_[KnobId::kScrubMibps]);
  if (rate_mibps == 0) {
    scrubbing_ = false;
    return;
  }
  ClearPlan();
  const uint32_t first = scrub_page_ << kPageShift;
  uint32_t in_log = 0;
  for (uint32_t block = first; block < first + kPageBlocks; ++block) {
    const BlockState& state = table_[block];
    if (state.log != 0) {
      ++in_log;
      cache_->CompletionNs(
          now_ns, {storage::Io::Kind::kRead, uint64_t{state.log} * kBlockBytes, kBlockBytes});
    } else if (state.capacity != 0) {
      plan_.from_capacity.push_back(block);
    }
  }
  const uint64_t bytes = (in_log + plan_.from_capacity.size()) * kBlockBytes;
  PlanCapacity();
  for (const Transfer& transfer : plan_.transfers) {
    capacity_devices_[transfer.device]->CompletionNs(
        now_ns, {storage::Io::Kind::kRead, transfer.offset, transfer.bytes});
  }
  scrub_page_ = (scrub_page_ + 1) % load_.page_count();
  const double wait_ns = static_cast<double>(std::max<uint64_t>(bytes, kBlockBytes)) /
                         static_cast<double>(rate_mibps * kMiB) * 1e9;
  events_.Add(now_ns + static_cast<uint64_t>(wait_ns), kScrub, 0);
}

}  // namespace ebb::twin
