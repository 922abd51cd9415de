// ReadSuperblock of a device whose two copies are the input's, with right or wrong checksums.
#include <algorithm>

#include "base/aligned_buffer.h"
#include "storage-backend/device/mem_device.h"
#include "storage-backend/device/superblock.h"
#include "tests/fuzz/fuzz_input.h"

namespace ebb::fuzz {
namespace {

constexpr uint64_t kDeviceBytes = 192 << 10;
// Where a superblock has its checksum, of all bytes before it: at the end of the fields.
constexpr size_t kCrcOffset = 4092;

void Place(storage::MemDevice& device, uint64_t offset, Bytes bytes, bool seal) {
  AlignedBuffer block(storage::kSuperblockBytes);
  std::copy_n(bytes.data(), std::min<size_t>(bytes.size(), block.size()), block.data());
  if (seal) StoreCrc(block.data() + kCrcOffset, Crc32c({block.data(), kCrcOffset}));
  Require(device.Write(offset, block.span()).ok());
}

}  // namespace

void Run(Bytes input) {
  static storage::MemDevice device(kDeviceBytes);
  const uint8_t how = TakeByte(input);
  const size_t first_bytes = (how & 4) != 0 ? input.size() / 2 : input.size();
  Place(device, 0, input.first(first_bytes), (how & 1) != 0);
  Place(device, kDeviceBytes - storage::kSuperblockBytes,
        (how & 4) != 0 ? input.subspan(first_bytes) : input, (how & 2) != 0);

  const auto reading = storage::ReadSuperblock(device);

  if (!reading.ok() || reading->blank) return;
  Require(reading->superblock.device_bytes == kDeviceBytes);
  // What was accepted can be written and comes back.
  Require(storage::WriteSuperblock(device, reading->superblock).ok());
  const auto again = storage::ReadSuperblock(device);
  Require(again.ok() && again->superblock == reading->superblock && again->damage.empty());
}

}  // namespace ebb::fuzz
