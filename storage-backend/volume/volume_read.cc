// The life of a read: planned in one step under the lock, executed without it, kept afterwards.
#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
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
  scratch->mapped = std::make_unique<bool[]>(2 * kReadBlocksMax);
  scratch->plan.blocks.reserve(2 * kReadBlocksMax);
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
  const absl::Status status = ExecuteRead(plan, out, scratch);
  UnpinPlan(plan);
  if (!status.ok()) read_errors_.fetch_add(1, std::memory_order_relaxed);
  if (sources == nullptr) return status;
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
    }
  }
  sources->readahead_blocks += plan.blocks.size() - plan.wanted;
  return status;
}

void VolumeImpl::PlanRead(uint64_t first_block, uint32_t count, bool client, ReadPlan& plan) {
  plan.first_block = first_block;
  plan.wanted = count;
  plan.keep = client;
  plan.blocks.clear();
  bool misses = false;
  const std::lock_guard lock(log_->mutex());
  for (uint64_t block = first_block; block < first_block + count; ++block) {
    BlockPlan& one = plan.blocks.emplace_back();
    one.generation = log_->GenerationLocked(block);
    one.slot = read_cache_.FindAndPin(block);
    if (one.slot != nullptr) {
      one.source = Source::kDram;
      continue;
    }
    one.place = log_->FindLocked(block);
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
    }
  }
  if (client && misses) PlanReadahead(plan);
}

void VolumeImpl::PlanReadahead(ReadPlan& plan) {
  const StreamDetector::Verdict verdict = streams_.Observe(plan.first_block, plan.wanted);
  const uint64_t bypass_bytes = sequential_bypass_bytes_.load(std::memory_order_relaxed);
  if (bypass_bytes > 0 && verdict.run_blocks * kBlockBytes > bypass_bytes) {
    plan.keep = false;
    return;
  }
  if (!verdict.sequential || !verdict.at_front || read_cache_.off()) return;
  const uint64_t begin = plan.first_block + plan.wanted;
  const uint64_t end = std::min<uint64_t>(begin + readahead_blocks_.load(std::memory_order_relaxed),
                                          identity_.volume_bytes / kBlockBytes);
  for (uint64_t block = begin; block < end; ++block) {
    if (read_cache_.Contains(block)) break;
    const CacheLog::Place place = log_->FindLocked(block);
    const bool absent = place.kind == CacheLog::Place::Kind::kAbsent;
    if (!absent && place.kind != CacheLog::Place::Kind::kDevice) {
      log_->Unpin(place);
      break;
    }
    plan.blocks.push_back({.source = absent ? Source::kCapacity : Source::kLog,
                           .generation = log_->GenerationLocked(block),
                           .place = place,
                           .slot = nullptr});
  }
  streams_.Extend(verdict.stream, plan.first_block + plan.blocks.size());
}

absl::Status VolumeImpl::CheckBlock(const BlockPlan& plan, uint64_t block, const std::byte* data) {
  const uint32_t expected = plan.source == Source::kDram ? plan.slot->crc32c : plan.place.crc32c;
  if (Crc32c({data, kBlockBytes}) == expected) return absl::OkStatus();
  checksum_errors_.fetch_add(1, std::memory_order_relaxed);
  return absl::DataLossError(fmt::format("block {} (cache block {}) does not match its checksum",
                                         block, plan.place.cache_block));
}

absl::Status VolumeImpl::ExecuteRead(ReadPlan& plan, std::span<std::byte> out,
                                     ReadScratch& scratch) {
  const size_t count = plan.blocks.size();
  for (size_t i = 0; i < count;) {
    BlockPlan& one = plan.blocks[i];
    std::byte* to = out.data() + i * kBlockBytes;
    if (one.source == Source::kZeroes) {
      std::memset(to, 0, kBlockBytes);
      ++i;
      continue;
    }
    const bool in_log = one.source == Source::kLog;
    if (one.source == Source::kDram ||
        (in_log && one.place.kind == CacheLog::Place::Kind::kBuffer)) {
      std::memcpy(to, in_log ? one.place.data : one.slot->data, kBlockBytes);
      EBB_RETURN_IF_ERROR(CheckBlock(one, plan.first_block + i, to));
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < count && plan.blocks[end].source == one.source &&
           (!in_log ||
            (plan.blocks[end].place.kind == CacheLog::Place::Kind::kDevice &&
             plan.blocks[end].place.cache_block == plan.blocks[end - 1].place.cache_block + 1))) {
      ++end;
    }
    // What was not asked for, or cannot be a target of the device, goes through our own memory.
    const bool bounce = end > plan.wanted || (in_log && !IsAligned(out.data()));
    if (bounce && scratch.bounce.size() < (end - i) * kBlockBytes) {
      scratch.bounce = AlignedBuffer((end - i) * kBlockBytes);
    }
    std::byte* data = bounce ? scratch.bounce.data() : to;
    EBB_RETURN_IF_ERROR(ReadRun(plan, i, end, data, scratch));
    if (bounce && i < plan.wanted) {
      std::memcpy(to, data, (std::min<size_t>(end, plan.wanted) - i) * kBlockBytes);
    }
    if (plan.keep) KeepBlocks(plan, data, i, end);
    i = end;
  }
  return absl::OkStatus();
}

absl::Status VolumeImpl::ReadRun(ReadPlan& plan, size_t begin, size_t end, std::byte* out,
                                 ReadScratch& scratch) {
  const size_t bytes = (end - begin) * kBlockBytes;
  if (plan.blocks[begin].source == Source::kCapacity) {
    const std::span<bool> mapped(scratch.mapped.get(), end - begin);
    EBB_RETURN_IF_ERROR(tier_->Read(plan.first_block + begin, end - begin, out, mapped));
    for (size_t i = begin; i < end; ++i) {
      if (!mapped[i - begin]) plan.blocks[i].source = Source::kZeroes;
    }
    return absl::OkStatus();
  }
  absl::Status status = parts_.cache->Read(
      uint64_t{plan.blocks[begin].place.cache_block} * kBlockBytes, {out, bytes});
  for (size_t i = begin; i < end && status.ok(); ++i) {
    status = CheckBlock(plan.blocks[i], plan.first_block + i, out + (i - begin) * kBlockBytes);
  }
  if (status.ok()) return status;
  // Clean copies have their twin in the capacity tier; only what is dirty is lost.
  {
    const std::lock_guard lock(log_->mutex());
    for (size_t i = begin; i < end; ++i) {
      if (log_->IsDirtyLocked(plan.first_block + i)) return Annotate(status, "read from the cache");
    }
  }
  EBB_RETURN_IF_ERROR(tier_->Read(plan.first_block + begin, end - begin, out, {}));
  plan.keep = false;
  return absl::OkStatus();
}

// Blocks [begin, end) of the plan, whose content is `data`, enter the read cache, unless they
// changed since the plan was made.
void VolumeImpl::KeepBlocks(ReadPlan& plan, const std::byte* data, size_t begin, size_t end) {
  const auto wants = [&](size_t i) {
    return plan.blocks[i].source != Source::kZeroes &&
           (i >= plan.wanted || read_cache_.Admits(plan.first_block + i));
  };
  {
    const std::lock_guard lock(log_->mutex());
    if (read_cache_.off()) return;
    for (size_t i = begin; i < end; ++i) {
      if (wants(i)) plan.blocks[i].slot = read_cache_.Allocate();
    }
  }
  for (size_t i = begin; i < end; ++i) {
    BlockPlan& one = plan.blocks[i];
    if (one.slot == nullptr) continue;
    const std::byte* block = data + (i - begin) * kBlockBytes;
    std::memcpy(one.slot->data, block, kBlockBytes);
    if (one.source == Source::kCapacity) one.place.crc32c = Crc32c({block, kBlockBytes});
  }
  const std::lock_guard lock(log_->mutex());
  for (size_t i = begin; i < end; ++i) {
    BlockPlan& one = plan.blocks[i];
    if (one.slot == nullptr) continue;
    const uint64_t block = plan.first_block + i;
    if (log_->GenerationLocked(block) == one.generation) {
      read_cache_.Publish(one.slot, block, one.place.crc32c);
    } else {
      read_cache_.Discard(one.slot);
    }
    one.slot = nullptr;
  }
}

void VolumeImpl::UnpinPlan(ReadPlan& plan) {
  for (const BlockPlan& one : plan.blocks) {
    if (one.slot != nullptr) one.slot->Unpin();
    log_->Unpin(one.place);
  }
}

}  // namespace ebb::storage
