#include "storage-backend/log/lost_blocks.h"

#include <charconv>
#include <string>
#include <string_view>

#include "base/status.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

// Key: the prefix and 16 hexadecimal digits; the value is empty (docs/formats.md, "Cache device").
constexpr std::string_view kPrefix = "lost_block/";
constexpr std::string_view kPrefixEnd = "lost_block0";

std::string KeyOf(uint64_t block) { return fmt::format("{}{:016x}", kPrefix, block); }

}  // namespace

absl::Status LostBlocks::Load() {
  blocks_.clear();
  return Annotate(metadata_.Scan(Table::kNode, kPrefix, kPrefixEnd,
                                 [&](std::string_view key, std::string_view) {
                                   uint64_t block = 0;
                                   const std::string_view digits = key.substr(kPrefix.size());
                                   std::from_chars(digits.begin(), digits.end(), block, 16);
                                   blocks_.insert(block);
                                   return true;
                                 }),
                  "lost blocks");
}

std::vector<uint64_t> LostBlocks::In(uint64_t first, uint64_t count) const {
  return {blocks_.lower_bound(first), blocks_.lower_bound(first + count)};
}

absl::Status LostBlocks::Commit(const std::vector<uint64_t>& blocks, bool lost) {
  MetadataBatch batch;
  for (const uint64_t block : blocks) {
    if (lost) {
      batch.Put(Table::kNode, KeyOf(block), "");
    } else {
      batch.Delete(Table::kNode, KeyOf(block));
    }
  }
  return Annotate(metadata_.Commit(batch, /*durable=*/true), "lost blocks");
}

void LostBlocks::Apply(const std::vector<uint64_t>& blocks, bool lost) {
  for (const uint64_t block : blocks) {
    if (lost) {
      blocks_.insert(block);
    } else {
      blocks_.erase(block);
    }
  }
}

}  // namespace ebb::storage
