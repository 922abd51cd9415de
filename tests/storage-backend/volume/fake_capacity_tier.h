// FakeCapacityTier keeps blocks in a map in memory: for tests of what is above the capacity tier.
//
// Durable at once, as the real one promises on return. The content lives in a shared store, so that
// it survives the tier object as devices do.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage-backend/capacity/capacity_tier.h"

namespace ebb::storage {

class FakeCapacityTier final : public CapacityTier {
 public:
  struct Content {
    std::mutex mutex;
    std::map<uint64_t, std::string> blocks;
    uint64_t capacity_blocks = 1 << 20;
    absl::Status fail_store;  // what Store returns, when not OK
    uint64_t stores = 0;
  };

  explicit FakeCapacityTier(std::shared_ptr<Content> content) : content_(std::move(content)) {}

  absl::Status Store(std::span<const StoreBlock> blocks, const StoreOptions& options,
                     StoreReport* report, const std::function<bool()>& keep_going) override;
  absl::Status Remove(uint64_t first_block, uint64_t count) override;
  absl::Status Read(uint64_t first_block, uint64_t count, std::byte* out,
                    std::span<bool> mapped) override;
  CapacityUsage Usage() override;
  uint64_t FreeBytes() override;
  absl::StatusOr<bool> CompactStep() override { return false; }
  absl::StatusOr<std::vector<std::string>> Check() override { return std::vector<std::string>{}; }

 private:
  std::shared_ptr<Content> content_;
};

}  // namespace ebb::storage
