// The life of a read: planned in one step under the lock, executed without it, kept afterwards.
#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/may_block.h"
#include "base/status.h"
#include "fmt/format.h"
#include "storage-backend/volume/volume_impl.h"

namespace ebb::storage {
namespace {

bool IsAligned(const std::byte* data) {
  return reinterpret_cast<uintptr_t>(data) % AlignedBuffer::kAlignment == 0;
}

}  // namespace

absl::Status VolumeImpl::Read(uint64_t offset, std::span<std::byte> out) {
  const uint64_t begin_ns = clock_.MonotonicNs();
  ReadSources sources;
  absl::Status status = CheckRange(offset, out.size());
  if (status.ok()) status = ReadBytes(offset, out, &sources);
  stats_.RecordRead(out.size(), clock_.MonotonicNs() - begin_ns, status.ok(), sources);
  return status;
}

std::unique_ptr<VolumeImpl::ReadScratch> VolumeImpl::TakeScratch() {
  {
    const std::lock_guard lock(scratch_mutex_);
    if (!scratches_.empty()) {
      std::unique_ptr<ReadScratch> scratch = std::move(scratches_.back());
      scratches_.pop_back();
      return scratch;
    }
  }
  auto scratch = std::make_unique<ReadScratch>();
  scratch->block = AlignedBuffer(kBlockBytes);
  scratch->mapped = std::make_unique<bool[]>(size_t{2} * kReadBlocksMax);
  scratch->plan.blocks.reserve(size_t{2} * kReadBlocksMax);
  return scratch;
}

void VolumeImpl::GiveScratch(std::unique_ptr<ReadScratch> scratch) {
  const std::lock_guard lock(scratch_mutex_);
  scratches_.push_back(std::move(scratch));
}

absl::Status VolumeImpl::ReadBytes(uint64_t offset, std::span<std::byte> out,
                                   ReadSources* sources) {
  std::unique_ptr<ReadScratch> scratch = TakeScratch();
  absl::Status status;
  while (!out.empty() && status.ok()) {
    const size_t head = offset % kBlockBytes;
    size_t bytes = 0;
    if (head != 0 || out.size() < kBlockBytes) {
      bytes = std::min<size_t>(out.size(), kBlockBytes - head);
      status = ReadBlocks(offset / kBlockBytes, scratch->block.span(), /*client=*/true, *scratch,
                          sources);
      if (status.ok()) std::memcpy(out.data(), scratch->block.data() + head, bytes);
    } else {
      bytes = std::min<size_t>(out.size() / kBlockBytes, kReadBlocksMax) * kBlockBytes;
      status =
          ReadBlocks(offset / kBlockBytes, out.first(bytes), /*client=*/true, *scratch, sources);
    }
    offset += bytes;
    out = out.subspan(bytes);
  }
  GiveScratch(std::move(scratch));
  return status;
}

absl::Status VolumeImpl::ReadBlocks(uint64_t first_block, std::span<std::byte> out, bool client,
                                    ReadScratch& scratch, ReadSources* sources) {
  ReadPlan& plan = scratch.plan;
  PlanRead(first_block, static_cast<uint32_t>(out.size() / kBlockBytes), client, plan);
  absl::Status status = ExecuteRead(plan, out, scratch);
  EndRead(status, scratch, sources);
  return status;
}

void VolumeImpl::EndRead(const absl::Status& status, ReadScratch& scratch, ReadSources* sources) {
  ReadPlan& plan = scratch.plan;
  FinishPlan(plan, status.ok());
  // Only now: an append may wait for a group buffer that this very read had pinned.
  if (status.ok() && plan.copies) CopyToCache(scratch);
  if (!status.ok()) read_errors_.fetch_add(1, std::memory_order_relaxed);
  if (sources == nullptr) return;
  for (uint32_t i = 0; i < plan.wanted; ++i) {
    switch (plan.blocks[i].source) {
      case Source::kDram:
        ++sources->dram_blocks;
        break;
      case Source::kLog:
        ++sources->cache_blocks;
        break;
      case Source::kCapacity:
        ++sources->capacity_blocks;
        break;
      case Source::kZeroes:
        ++sources->unmapped_blocks;
        break;
      case Source::kLost:
        break;
    }
  }
  sources->readahead_blocks += plan.blocks.size() - plan.wanted;
}

void VolumeImpl::PlanRead(uint64_t first_block, uint32_t count, bool client, ReadPlan& plan) {
  plan.first_block = first_block;
  plan.wanted = count;
  plan.keeps = false;
  plan.copies = false;
  plan.blocks.clear();
  bool misses = false;
  CacheLog::Place before;
  const std::lock_guard lock(log_->mutex());
  for (uint64_t block = first_block; block < first_block + count; ++block) {
    BlockPlan& one = plan.blocks.emplace_back();
    one.generation = log_->GenerationLocked(block);
    one.slot = read_cache_.FindAndPin(block);
    if (one.slot != nullptr) {
      one.source = Source::kDram;
      before = {};
      continue;
    }
    one.place = before = log_->FindNextLocked(before, block);
    switch (one.place.kind) {
      case CacheLog::Place::Kind::kAbsent:
        one.source = Source::kCapacity;
        misses = true;
        break;
      case CacheLog::Place::Kind::kZeroes:
        one.source = Source::kZeroes;
        break;
      case CacheLog::Place::Kind::kBuffer:
        one.source = Source::kLog;
        break;
      case CacheLog::Place::Kind::kDevice:
        one.source = Source::kLog;
        misses = true;
        break;
      case CacheLog::Place::Kind::kLost:
        one.source = Source::kLost;
        break;
    }
  }
  if (client && misses && PlanReadahead(plan)) PlanKeeping(plan);
}

bool VolumeImpl::PlanReadahead(ReadPlan& plan) {
  const StreamDetector::Verdict verdict = streams_.Observe(plan.first_block, plan.wanted);
  const uint64_t bypass_bytes = sequential_bypass_bytes_.load(std::memory_order_relaxed);
  if (bypass_bytes > 0 && verdict.run_blocks * kBlockBytes > bypass_bytes) return false;
  if (!verdict.sequential || !verdict.at_front || read_cache_.off()) return true;
  const uint32_t readahead_blocks = readahead_blocks_.load(std::memory_order_relaxed);
  // A client that asks for as much at once reads ahead by itself.
  if (plan.wanted >= readahead_blocks) return true;
  const uint64_t begin = plan.first_block + plan.wanted;
  const uint64_t end =
      std::min<uint64_t>(begin + readahead_blocks, identity_.volume_bytes / kBlockBytes);
  for (uint64_t block = begin; block < end; ++block) {
    if (read_cache_.Contains(block)) break;
    const CacheLog::Place place = log_->FindLocked(block);
    const bool absent = place.kind == CacheLog::Place::Kind::kAbsent;
    if (!absent && place.kind != CacheLog::Place::Kind::kDevice) {
      log_->Unpin(place);
      break;
    }
    BlockPlan& one = plan.blocks.emplace_back();
    one.source = absent ? Source::kCapacity : Source::kLog;
    one.generation = log_->GenerationLocked(block);
    one.place = place;
  }
  streams_.Extend(verdict.stream, plan.first_block + plan.blocks.size());
  return true;
}

void VolumeImpl::PlanKeeping(ReadPlan& plan) {
  // Copies must not take the room that writes need: there are none once destage has begun.
  plan.copies =
      log_->WantsCopies() &&
      log_->fill() < DestagePacing::LowerMark(destage_watermark_.load(std::memory_order_relaxed));
  if (read_cache_.off()) return;
  for (size_t i = 0; i < plan.blocks.size(); ++i) {
    BlockPlan& one = plan.blocks[i];
    const bool missed =
        one.source == Source::kCapacity ||
        (one.source == Source::kLog && one.place.kind == CacheLog::Place::Kind::kDevice);
    if (!missed) continue;
    const auto from = one.source == Source::kCapacity ? ReadAdmissionPolicy::ReadFrom::kCapacity
                                                      : ReadAdmissionPolicy::ReadFrom::kCacheDevice;
    if (i < plan.wanted && !read_cache_.Admits(plan.first_block + i, from)) continue;
    one.fill = read_cache_.Allocate();
    plan.keeps = plan.keeps || one.fill != nullptr;
  }
}

absl::Status VolumeImpl::CheckBlock(const BlockPlan& plan, uint64_t block, uint32_t crc32c) {
  const uint32_t expected = plan.source == Source::kDram ? plan.slot->crc32c : plan.place.crc32c;
  if (crc32c == expected) return absl::OkStatus();
  checksum_errors_.fetch_add(1, std::memory_order_relaxed);
  return absl::DataLossError(fmt::format("block {} (cache block {}) does not match its checksum",
                                         block, plan.place.cache_block));
}

absl::Status VolumeImpl::CopyAndCut(ReadPlan& plan, std::span<std::byte> out,
                                    ReadScratch& scratch) {
  scratch.runs.clear();
  const auto fits_device = [&](const std::byte* to) {
    return parts_.cache->in_memory() || IsAligned(to);
  };
  const size_t count = plan.blocks.size();
  for (size_t i = 0; i < count; ++i) {
    BlockPlan& one = plan.blocks[i];
    std::byte* to = out.data() + i * kBlockBytes;
    const bool in_log = one.source == Source::kLog;
    if (one.source == Source::kZeroes) {
      std::memset(to, 0, kBlockBytes);
      continue;
    }
    if (one.source == Source::kLost) {
      return absl::DataLossError(fmt::format(
          "block {} was damaged on the cache device before it was destaged", plan.first_block + i));
    }
    if (one.source == Source::kDram ||
        (in_log && one.place.kind == CacheLog::Place::Kind::kBuffer)) {
      const std::byte* from = in_log ? one.place.data : one.slot->data;
      const uint32_t crc32c = Crc32cCopy(to, {from, kBlockBytes});
      EBB_RETURN_IF_ERROR(CheckBlock(one, plan.first_block + i, crc32c));
      UnpinBlock(one);  // the rest of the read may wait for a device
      continue;
    }
    const bool joins =
        !scratch.runs.empty() && scratch.runs.back().end == i &&
        plan.blocks[i - 1].source == one.source &&
        (!in_log || plan.blocks[i - 1].place.cache_block + 1 == one.place.cache_block);
    if (joins) {
      ++scratch.runs.back().end;
    } else {
      scratch.runs.push_back({.begin = i, .end = i + 1, .data = nullptr, .io = {}});
    }
  }
  for (ReadRun& run : scratch.runs) {
    // What was not asked for, or cannot be a target of the device, goes through our own memory.
    const bool in_log = plan.blocks[run.begin].source == Source::kLog;
    const bool bounce = run.end > plan.wanted || (in_log && !fits_device(out.data()));
    if (bounce && scratch.bounce.size() < count * kBlockBytes) {
      scratch.bounce = AlignedBuffer(count * kBlockBytes);
    }
    run.data = (bounce ? scratch.bounce.data() : out.data()) + run.begin * kBlockBytes;
  }
  return absl::OkStatus();
}

absl::Status VolumeImpl::ExecuteRead(ReadPlan& plan, std::span<std::byte> out,
                                     ReadScratch& scratch) {
  EBB_RETURN_IF_ERROR(CopyAndCut(plan, out, scratch));
  if (scratch.runs.empty()) return absl::OkStatus();
  ReadFromCache(plan, scratch);
  return FinishRuns(plan, out, scratch);
}

absl::Status VolumeImpl::FinishRuns(ReadPlan& plan, std::span<std::byte> out,
                                    ReadScratch& scratch) {
  for (ReadRun& run : scratch.runs) {
    if (plan.blocks[run.begin].source == Source::kLog) {
      EBB_RETURN_IF_ERROR(FinishCacheRun(plan, run));
    } else {
      EBB_RETURN_IF_ERROR(ReadFromCapacity(plan, run, scratch));
    }
    std::byte* to = out.data() + run.begin * kBlockBytes;
    if (run.data != to && run.begin < plan.wanted) {
      std::memcpy(to, run.data, (std::min<size_t>(run.end, plan.wanted) - run.begin) * kBlockBytes);
    }
    if (plan.keeps) FillSlots(plan, run);
  }
  return absl::OkStatus();
}

void VolumeImpl::ReadFromCache(const ReadPlan& plan, ReadScratch& scratch) {
  constexpr size_t kDepth = 32;
  const auto offset = [&](const ReadRun& run) {
    return uint64_t{plan.blocks[run.begin].place.cache_block} * kBlockBytes;
  };
  const auto in_log = [&](const ReadRun& run) {
    return plan.blocks[run.begin].source == Source::kLog;
  };
  const auto count = std::count_if(scratch.runs.begin(), scratch.runs.end(), in_log);
  if (count > 0 && !parts_.cache->in_memory()) MayBlock();
  if (count > 1 && scratch.queue == nullptr) scratch.queue = parts_.cache->MakeQueue(kDepth);
  for (ReadRun& run : scratch.runs) {
    if (!in_log(run)) continue;
    const size_t bytes = (run.end - run.begin) * kBlockBytes;
    if (count == 1) {
      run.io.status = parts_.cache->Read(offset(run), {run.data, bytes});
      return;
    }
    if (scratch.queue->in_flight() == kDepth) scratch.queue->Reap(1);
    run.io = {.kind = Io::Kind::kRead, .offset = offset(run), .data = run.data, .bytes = bytes};
    scratch.queue->Submit(&run.io);
  }
  if (count > 1) {
    while (scratch.queue->in_flight() > 0) scratch.queue->Reap(scratch.queue->in_flight());
  }
}

absl::Status VolumeImpl::FinishCacheRun(ReadPlan& plan, ReadRun& run) {
  absl::Status status = run.io.status;
  for (size_t i = run.begin; i < run.end && status.ok(); ++i) {
    status = CheckBlock(plan.blocks[i], plan.first_block + i,
                        Crc32c({run.data + (i - run.begin) * kBlockBytes, kBlockBytes}));
    plan.blocks[i].crc32c = plan.blocks[i].place.crc32c;
  }
  if (status.ok()) return status;
  {
    const std::lock_guard lock(log_->mutex());
    for (size_t i = run.begin; i < run.end; ++i) {
      if (log_->IsDirtyLocked(plan.first_block + i)) return Annotate(status, "read from the cache");
    }
  }
  EBB_RETURN_IF_ERROR(tier_->Read(plan.first_block + run.begin, run.end - run.begin, run.data, {}));
  for (size_t i = run.begin; i < run.end; ++i) {
    plan.blocks[i].crc32c = Crc32c({run.data + (i - run.begin) * kBlockBytes, kBlockBytes});
  }
  return absl::OkStatus();
}

absl::Status VolumeImpl::ReadFromCapacity(ReadPlan& plan, ReadRun& run, ReadScratch& scratch) {
  const std::span<bool> mapped(scratch.mapped.get(), run.end - run.begin);
  MayBlock();
  EBB_RETURN_IF_ERROR(
      tier_->Read(plan.first_block + run.begin, run.end - run.begin, run.data, mapped));
  for (size_t i = run.begin; i < run.end; ++i) {
    BlockPlan& one = plan.blocks[i];
    if (!mapped[i - run.begin]) {
      one.source = Source::kZeroes;
    } else if (one.fill != nullptr) {
      one.crc32c = Crc32c({run.data + (i - run.begin) * kBlockBytes, kBlockBytes});
    }
  }
  return absl::OkStatus();
}

void VolumeImpl::FillSlots(ReadPlan& plan, const ReadRun& run) {
  for (size_t i = run.begin; i < run.end; ++i) {
    const BlockPlan& one = plan.blocks[i];
    if (one.fill == nullptr || one.source == Source::kZeroes) continue;
    std::memcpy(one.fill->data, run.data + (i - run.begin) * kBlockBytes, kBlockBytes);
  }
}

void VolumeImpl::CopyToCache(ReadScratch& scratch) {
  const ReadPlan& plan = scratch.plan;
  const uint64_t now_ns = clock_.MonotonicNs();
  for (const ReadRun& run : scratch.runs) {
    for (size_t i = run.begin; i < run.end; ++i) {
      scratch.generations.clear();
      const size_t begin = i;
      // Unmapped blocks have become kZeroes.
      for (; i < run.end && plan.blocks[i].source == Source::kCapacity; ++i) {
        scratch.generations.push_back(plan.blocks[i].generation);
      }
      if (i == begin) continue;
      log_->AppendCopies(plan.first_block + begin,
                         {run.data + (begin - run.begin) * kBlockBytes, (i - begin) * kBlockBytes},
                         scratch.generations, now_ns);
    }
  }
}

void VolumeImpl::FinishPlan(ReadPlan& plan, bool ok) {
  if (plan.keeps) {
    const std::lock_guard lock(log_->mutex());
    for (size_t i = 0; i < plan.blocks.size(); ++i) {
      BlockPlan& one = plan.blocks[i];
      if (one.fill == nullptr) continue;
      const uint64_t block = plan.first_block + i;
      if (ok && one.source != Source::kZeroes && log_->GenerationLocked(block) == one.generation) {
        read_cache_.Publish(one.fill, block, one.crc32c);
      } else {
        read_cache_.Discard(one.fill);
      }
    }
  }
  for (BlockPlan& one : plan.blocks) UnpinBlock(one);
}

void VolumeImpl::UnpinBlock(BlockPlan& plan) {
  if (plan.slot != nullptr) plan.slot->Unpin();
  plan.slot = nullptr;
  log_->Unpin(plan.place);
  plan.place.kind = CacheLog::Place::Kind::kAbsent;
}

}  // namespace ebb::storage
