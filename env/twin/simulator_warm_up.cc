// A load passing without time: caches fill, the log fills, blocks find their places.
//
// A run that has not filled the log makes a starved destage look free, so no run is measured before
// this.
#include <algorithm>

#include "env/twin/simulator.h"

namespace ebb::twin {

void Simulator::DestageWithoutTime(double until_fill) {
  const StoreChoice choice = CurrentChoice();
  const uint64_t bytes = storage::DestagePacing::BatchBytes(
      static_cast<uint64_t>(setting_[storage::KnobId::kDestageBatchBytes]),
      log_.write_space_bytes());
  while (log_.fill() > until_fill) {
    log_.EndFlush(log_.BeginFlush(now_ns_));
    ApplyRanges(now_ns_);
    chosen_.clear();
    log_.CollectDirty(std::max<size_t>(bytes / kBlockBytes, 1), until_fill, chosen_);
    if (!chosen_.empty()) {
      while (!capacity_.HasRoomFor(chosen_.size())) {
        compaction_reads_.clear();
        if (!capacity_.BeginCompaction(/*urgent=*/true, compaction_reads_)) break;
        StoreWithoutTime();
      }
      FillBatch(chosen_);
      capacity_.BeginBatch(batch_blocks_, choice);
      if (!StoreWithoutTime()) return;
      for (const LogModel::DirtyBlock& dirty : chosen_) log_.MarkClean(dirty);
    }
    const LogModel::Released released = log_.ReleaseClean();
    if (chosen_.empty() && !released.advanced) return;
  }
}

// False when the devices are full.
bool Simulator::StoreWithoutTime() {
  bool full = false;
  while (capacity_.NextExtent(extent_, full)) {
  }
  capacity_.CommitBatch();
  return !full;
}

void Simulator::PassWithoutTime(uint32_t record, uint32_t end_record) {
  const std::span<const Request> requests = load_.requests();
  uint64_t now_ns = now_ns_;  // what the processor does moves it, and here nothing takes time
  switch (requests[record].kind) {
    case RequestKind::kRead: {
      const uint32_t blocks = BlocksOf(record, end_record);
      for (uint32_t done = 0; done < blocks;) {
        const uint32_t end = PartEnd(record, end_record, done, blocks);
        PlanRead(record, done, end);
        EndRead(plan_.fills, plan_.from_capacity, plan_.copies, now_ns);
        done = end;
      }
      // Copies fill segments that are clean as soon as they are durable: the background sees to it
      // all the time.
      if (log_.WantsFlush()) {
        log_.EndFlush(log_.BeginFlush(now_ns_));
        log_.ReleaseClean();
      }
      // Copies behind a few dirty blocks fill the log as well.
      if (log_.fill() > watermark_ / 100.0) DestageWithoutTime(lower_mark_);
      return;
    }
    case RequestKind::kWrite:
    case RequestKind::kTrim:
      for (uint32_t i = record; i < end_record; ++i) {
        uint32_t block = 0;
        if (!HasSpaceFor(requests[i].blocks)) continue;
        if (AppendRecord(requests[i], block, now_ns)) continue;
        DestageWithoutTime(lower_mark_);
        AppendRecord(requests[i], block, now_ns);
      }
      if (log_.fill() > watermark_ / 100.0) DestageWithoutTime(lower_mark_);
      return;
    case RequestKind::kFlush:
      log_.EndFlush(log_.BeginFlush(now_ns_));
      return;
  }
}

void Simulator::WarmUp(int passes_max, double share) {
  const std::span<const Request> all = load_.requests();
  if (all.empty()) return;
  auto part = static_cast<uint32_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(all.size()));
  if (part > 0) part = load_.EndOf(part - 1);
  const std::span<const Request> requests = all.first(part);
  log_.SetInstant(true);
  const uint64_t log_blocks = log_.space_bytes() / kBlockBytes;
  for (int pass = 0; pass < passes_max; ++pass) {
    for (uint32_t record = 0; record < requests.size();) {
      const uint32_t end = load_.EndOf(record);
      if (record + 12 < requests.size()) {
        __builtin_prefetch(&table_[requests[record + 12].first_block], 1);
      }
      PassWithoutTime(record, end);
      record = end;
    }
    if (log_.appended_blocks() + window_.copied_blocks >= log_blocks) break;
  }
  log_.SetInstant(false);
  cpu_ = CpuModel(node_.cores);
  if (part < all.size()) {
    // Arrivals are times of the load behind the beginning of the pass: this one began before now.
    next_record_ = part;
    pass_begin_ns_ = now_ns_ - all[part].time_ns;
  }
  cleaned_seen_ = log_.cleaned_bytes();
  window_ = {};
  block_operations_ = 0;
}

}  // namespace ebb::twin
