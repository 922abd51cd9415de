// Group headers with their entries, and the cache log's tail.
#include <algorithm>

#include "base/aligned_buffer.h"
#include "storage-backend/log/cache_log.h"
#include "storage-backend/log/log_format.h"
#include "storage-backend/metadata/mem_metadata.h"
#include "tests/fuzz/fuzz_input.h"

namespace ebb::fuzz {
namespace {

using storage::kCacheBlockBytes;

void DecodeGroup(Bytes input, bool seal) {
  static AlignedBuffer block(kCacheBlockBytes);
  std::fill_n(block.data(), kCacheBlockBytes, std::byte{});
  std::copy_n(input.data(), std::min<size_t>(input.size(), kCacheBlockBytes), block.data());
  constexpr size_t kCrcOffset = kCacheBlockBytes - sizeof(uint32_t);
  if (seal) StoreCrc(block.data() + kCrcOffset, Crc32c({block.data(), kCrcOffset}));

  const auto header = storage::DecodeHeader(block.span());

  if (!header.ok()) return;
  Require(header->entry_count <= storage::kGroupEntriesMax);
  Require(header->payload_blocks <= header->entry_count);
  uint32_t data_blocks = 0;
  for (uint32_t i = 0; i < header->entry_count; ++i) {
    const storage::LogEntry entry = storage::DecodeEntry(block.span(), i);
    Require(entry.count >= 1);
    if (storage::HasDataBlock(entry.kind)) ++data_blocks;
  }
  Require(data_blocks == header->payload_blocks);
}

void DecodeTail(Bytes input, bool seal) {
  // Version, checksum of the rest, the rest.
  constexpr size_t kCrcOffset = 4;
  std::string value = ToString(input);
  if (seal && value.size() > kCrcOffset + 4) {
    StoreCrc(reinterpret_cast<std::byte*>(value.data()) + kCrcOffset,
             Crc32c(AsBytes(std::string_view(value).substr(kCrcOffset + 4))));
  }
  storage::MemMetadata metadata;
  storage::MetadataBatch batch;
  batch.Put(storage::Table::kNode, "cache_log", value);
  Require(metadata.Commit(batch, true).ok());

  const auto tail = storage::CacheLog::ReadTail(metadata);

  if (!tail.ok()) return;
  Require(storage::CacheLog::WriteTail(metadata, *tail).ok());
  const auto again = storage::CacheLog::ReadTail(metadata);
  Require(again.ok() && again->epoch == tail->epoch && again->replay_from == tail->replay_from);
}

}  // namespace

void Run(Bytes input) {
  const uint8_t how = TakeByte(input);
  if ((how & 2) != 0) {
    DecodeTail(input, (how & 1) != 0);
  } else {
    DecodeGroup(input, (how & 1) != 0);
  }
}

}  // namespace ebb::fuzz
