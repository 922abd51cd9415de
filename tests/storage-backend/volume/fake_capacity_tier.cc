#include "tests/storage-backend/volume/fake_capacity_tier.h"

#include <cstring>

#include "base/crc32c.h"

namespace ebb::storage {

constexpr size_t kBytes = 4096;

absl::Status FakeCapacityTier::Store(std::span<const StoreBlock> blocks,
                                     const StoreOptions& /*options*/, StoreReport* report,
                                     const std::function<bool()>& keep_going) {
  if (keep_going && !keep_going()) return absl::CancelledError("told to stop");
  const std::lock_guard lock(content_->mutex);
  if (!content_->fail_store.ok()) return content_->fail_store;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i > 0 && blocks[i].block <= blocks[i - 1].block) {
      return absl::InvalidArgumentError("blocks are not ascending");
    }
    if (Crc32c({blocks[i].data, kBytes}) != blocks[i].crc32c) {
      return absl::DataLossError("wrong checksum");
    }
  }
  for (const StoreBlock& block : blocks) {
    content_->blocks[block.block].assign(reinterpret_cast<const char*>(block.data), kBytes);
  }
  ++content_->stores;
  if (report != nullptr) {
    *report = {.blocks = blocks.size(),
               .deduplicated_blocks = 0,
               .raw_bytes = blocks.size() * kBytes,
               .stored_bytes = blocks.size() * kBytes,
               .written_bytes = blocks.size() * kBytes};
  }
  return absl::OkStatus();
}

absl::Status FakeCapacityTier::Remove(uint64_t first_block, uint64_t count) {
  const std::lock_guard lock(content_->mutex);
  content_->blocks.erase(content_->blocks.lower_bound(first_block),
                         content_->blocks.lower_bound(first_block + count));
  return absl::OkStatus();
}

absl::Status FakeCapacityTier::Read(uint64_t first_block, uint64_t count, std::byte* out,
                                    std::span<bool> mapped) {
  const std::lock_guard lock(content_->mutex);
  for (uint64_t i = 0; i < count; ++i) {
    const auto found = content_->blocks.find(first_block + i);
    const bool here = found != content_->blocks.end();
    if (here) {
      std::memcpy(out + i * kBytes, found->second.data(), kBytes);
    } else {
      std::memset(out + i * kBytes, 0, kBytes);
    }
    if (!mapped.empty()) mapped[i] = here;
  }
  return absl::OkStatus();
}

CapacityUsage FakeCapacityTier::Usage() {
  const std::lock_guard lock(content_->mutex);
  const uint64_t bytes = content_->blocks.size() * kBytes;
  return {.logical_bytes = bytes,
          .unique_bytes = bytes,
          .stored_bytes = bytes,
          .physical_bytes = bytes,
          .free_bytes = content_->capacity_blocks * kBytes - bytes};
}

uint64_t FakeCapacityTier::FreeBytes() { return Usage().free_bytes; }

}  // namespace ebb::storage
