// Headers of extents on a capacity device.
#include <vector>

#include "storage-backend/capacity/extent.h"
#include "tests/fuzz/fuzz_input.h"

namespace ebb::fuzz {
namespace {

// Where the header says how long it is, and where its checksum is, which counts as zero.
constexpr size_t kLengthOffset = 12;
constexpr size_t kCrcOffset = 60;
constexpr size_t kBlocks = 2;

}  // namespace

void Run(Bytes input) {
  const bool seal = (TakeByte(input) & 1) != 0;
  std::vector<std::byte> extent(kBlocks * storage::kCapacityBlockBytes);
  std::copy_n(input.begin(), std::min(input.size(), extent.size()), extent.begin());
  if (seal) {
    const auto header_bytes = static_cast<uint32_t>(storage::kCapacityBlockBytes);
    std::memcpy(extent.data() + kLengthOffset, &header_bytes, sizeof header_bytes);
    StoreCrc(extent.data() + kCrcOffset, 0);
    StoreCrc(extent.data() + kCrcOffset, Crc32c(Bytes(extent).first(header_bytes)));
  }

  const auto header = storage::DecodeExtentHeader(extent);

  if (!header.ok()) return;
  Require(header->header_bytes <= extent.size());
  const uint64_t end = uint64_t{header->header_bytes} + header->payload_bytes;
  for (const storage::ExtentUnit& unit : header->units) {
    Require(unit.block_count <= storage::kUnitBlocksMax);
    Require(uint64_t{unit.offset} + unit.stored_bytes <= end);
  }
}

}  // namespace ebb::fuzz
