#include "storage-backend/destage/dirty_reader.h"

#include <algorithm>
#include <utility>

#include "storage-backend/log/log_format.h"

namespace ebb::storage {
namespace {

constexpr size_t kReadDepth = 32;
constexpr size_t kRunBlocksMax = 256;
constexpr size_t kRunsAStep = 2;

bool IsSame(const LogMap::DirtyBlock& a, const LogMap::DirtyBlock& b) {
  return a.cache_block == b.cache_block && a.block == b.block && a.crc32c == b.crc32c;
}

}  // namespace

DirtyReader::DirtyReader(Device& cache) : cache_(cache), queue_(cache.MakeQueue(kReadDepth)) {}

DirtyReader::~DirtyReader() { queue_->Reap(queue_->in_flight()); }

void DirtyReader::Reserve(size_t bytes) {
  for (Part& part : ahead_) {
    if (part.buffer.size() < bytes) part.buffer = AlignedBuffer(bytes);
  }
}

void DirtyReader::Prepare(Part& part, std::vector<LogMap::DirtyBlock> blocks) {
  part.blocks = std::move(blocks);
  part.runs.clear();
  part.started = 0;
  part.bad.assign(part.blocks.size(), false);
  if (part.buffer.size() < part.blocks.size() * kCacheBlockBytes) {
    part.buffer = AlignedBuffer(part.blocks.size() * kCacheBlockBytes);
  }
  for (size_t i = 0; i < part.blocks.size(); ++i) {
    const bool joins = !part.runs.empty() && part.runs.back().count < kRunBlocksMax &&
                       part.blocks[i].cache_block == part.blocks[i - 1].cache_block + 1;
    if (joins) {
      ++part.runs.back().count;
    } else {
      part.runs.push_back({.first = i, .count = 1, .io = {}});
    }
  }
}

void DirtyReader::Start(Part& part, size_t runs_max) {
  for (; runs_max > 0 && part.started < part.runs.size() && queue_->in_flight() < queue_->depth();
       --runs_max) {
    Run& run = part.runs[part.started++];
    run.io = {.kind = Io::Kind::kRead,
              .offset = uint64_t{part.blocks[run.first].cache_block} * kCacheBlockBytes,
              .data = part.buffer.data() + run.first * kCacheBlockBytes,
              .bytes = run.count * kCacheBlockBytes};
    queue_->Submit(&run.io);
  }
}

void DirtyReader::Finish(Part& part) {
  while (part.started < part.runs.size() || queue_->in_flight() > 0) {
    Start(part, part.runs.size());
    queue_->Reap(1);
  }
  for (const Run& run : part.runs) {
    if (run.io.status.ok()) continue;
    for (size_t i = run.first; i < run.first + run.count; ++i) {
      // A second look at each: the error may be another block's, or pass.
      const absl::Status status =
          cache_.Read(uint64_t{part.blocks[i].cache_block} * kCacheBlockBytes,
                      part.buffer.span(i * kCacheBlockBytes, kCacheBlockBytes));
      if (status.ok()) continue;
      part.bad[i] = true;
      failure_ = status;
    }
  }
  part.runs.clear();
  part.started = 0;
}

DirtyReader::Result DirtyReader::Read(const std::vector<LogMap::DirtyBlock>& wanted) {
  failure_ = absl::OkStatus();
  Part& ahead = ahead_[now_];
  // Without anything read ahead, its memory serves: rest_ stays small.
  if (ahead.blocks.empty()) Prepare(ahead, wanted);
  Finish(ahead);
  Result result;
  result.blocks.reserve(wanted.size());
  std::vector<LogMap::DirtyBlock> missing;
  size_t next = 0;
  for (const LogMap::DirtyBlock& block : wanted) {
    while (next < ahead.blocks.size() && ahead.blocks[next].cache_block < block.cache_block) {
      ++next;
    }
    std::byte* data = nullptr;
    if (next < ahead.blocks.size() && IsSame(ahead.blocks[next], block) && !ahead.bad[next]) {
      data = ahead.buffer.data() + next * kCacheBlockBytes;
    } else {
      missing.push_back(block);
    }
    result.blocks.push_back({.dirty = block, .data = data});
  }
  Prepare(rest_, std::move(missing));
  Finish(rest_);
  next = 0;
  for (Block& block : result.blocks) {
    if (block.data != nullptr) continue;
    if (rest_.bad[next]) {
      result.unreadable.push_back(block.dirty);
    } else {
      block.data = rest_.buffer.data() + next * kCacheBlockBytes;
    }
    ++next;
  }
  std::erase_if(result.blocks, [](const Block& block) { return block.data == nullptr; });
  result.status = failure_;
  return result;
}

void DirtyReader::Prefetch(std::vector<LogMap::DirtyBlock> blocks) {
  now_ = 1 - now_;
  Prepare(ahead_[now_], std::move(blocks));
}

void DirtyReader::Advance() { Start(ahead_[now_], kRunsAStep); }

}  // namespace ebb::storage
