#include "storage-backend/device/superblock.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <random>
#include <string_view>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

// Little-endian, as every machine we run on; the CRC ends the block so that it covers every byte
// before it, the unused ones included.
static_assert(std::endian::native == std::endian::little);

constexpr std::array<char, 8> kMagic = {'E', 'B', 'B', 'N', 'O', 'D', 'E', '\n'};
constexpr uint32_t kFormatVersion = 1;
constexpr uint64_t kBlankProbeBytes = 128 * kKiB;

struct DiskSuperblock {
  std::array<char, 8> magic;
  uint32_t format_version;
  uint8_t role;
  uint8_t clean_shutdown;
  uint16_t reserved0;
  Uuid node_uuid;
  Uuid device_uuid;
  uint32_t device_index;
  uint32_t capacity_device_count;
  uint64_t device_bytes;
  uint64_t segment_bytes;
  uint64_t epoch;
  uint64_t dirty_bytes;
  uint32_t group_index;
  uint32_t group_count;  // 0 in nodes made before there were groups: 1
  std::array<uint8_t, 3996> reserved1;
  uint32_t crc32c;
};
static_assert(sizeof(DiskSuperblock) == kSuperblockBytes);
static_assert(offsetof(DiskSuperblock, crc32c) == kSuperblockBytes - 4);

bool AllZero(std::span<const std::byte> data) {
  return std::all_of(data.begin(), data.end(), [](std::byte b) { return b == std::byte{0}; });
}

// One copy as found on the device.
struct Copy {
  enum class State { kZero, kForeign, kDamaged, kValid };
  State state = State::kZero;
  Superblock superblock;
  std::string fault;  // why it is not valid
};

Copy Parse(std::span<const std::byte> block) {
  Copy copy;
  if (AllZero(block)) {
    copy.fault = "is all zero";
    return copy;
  }
  DiskSuperblock disk;
  std::memcpy(&disk, block.data(), sizeof disk);
  if (disk.magic != kMagic) {
    copy.state = Copy::State::kForeign;
    copy.fault = "does not begin with Ebb's mark";
    return copy;
  }
  copy.state = Copy::State::kDamaged;
  if (disk.crc32c != Crc32c(block.first(offsetof(DiskSuperblock, crc32c)))) {
    copy.fault = "has a wrong checksum";
    return copy;
  }
  if (disk.format_version != kFormatVersion) {
    copy.fault = fmt::format("has format version {}, this program knows {}", disk.format_version,
                             kFormatVersion);
    return copy;
  }
  copy.state = Copy::State::kValid;
  copy.superblock = {
      .node_uuid = disk.node_uuid,
      .device_uuid = disk.device_uuid,
      .role = static_cast<Superblock::Role>(disk.role),
      .device_index = disk.device_index,
      .capacity_device_count = disk.capacity_device_count,
      .device_bytes = disk.device_bytes,
      .segment_bytes = disk.segment_bytes,
      .epoch = disk.epoch,
      .dirty_bytes = disk.dirty_bytes,
      .clean_shutdown = disk.clean_shutdown != 0,
      .group = {.index = disk.group_index, .count = std::max<uint32_t>(disk.group_count, 1)}};
  return copy;
}

void Format(const Superblock& superblock, std::byte* block) {
  DiskSuperblock disk{};
  disk.magic = kMagic;
  disk.format_version = kFormatVersion;
  disk.role = static_cast<uint8_t>(superblock.role);
  disk.clean_shutdown = superblock.clean_shutdown ? 1 : 0;
  disk.node_uuid = superblock.node_uuid;
  disk.device_uuid = superblock.device_uuid;
  disk.device_index = superblock.device_index;
  disk.capacity_device_count = superblock.capacity_device_count;
  disk.device_bytes = superblock.device_bytes;
  disk.segment_bytes = superblock.segment_bytes;
  disk.epoch = superblock.epoch;
  disk.dirty_bytes = superblock.dirty_bytes;
  disk.group_index = superblock.group.index;
  disk.group_count = superblock.group.count;
  std::memcpy(block, &disk, sizeof disk);
  disk.crc32c = Crc32c({block, offsetof(DiskSuperblock, crc32c)});
  std::memcpy(block, &disk, sizeof disk);
}

struct Signature {
  size_t offset;
  std::string_view bytes;
  std::string_view name;
};

// What a person most likely gave by mistake; only to make the refusal helpful.
constexpr std::array<Signature, 10> kSignatures = {{
    {1080, "\x53\xef", "an ext4 file system"},
    {0, "XFSB", "an XFS file system"},
    {65600, "_BHRfS_M", "a Btrfs file system"},
    {512, "LABELONE", "an LVM physical volume"},
    {512, "EFI PART", "a disk with a partition table"},
    {4086, "SWAPSPACE2", "a swap area"},
    {4096, "\xfc\x4e\x2b\xa9", "a member of a Linux RAID"},
    {0, "QFI\xfb", "a qcow2 image"},
    {0, "SQLite format 3", "an SQLite database"},
    {510, "\x55\xaa", "a disk with a boot sector"},
}};

std::string LooksLike(std::span<const std::byte> head) {
  for (const Signature& signature : kSignatures) {
    if (signature.offset + signature.bytes.size() > head.size()) continue;
    if (std::memcmp(head.data() + signature.offset, signature.bytes.data(),
                    signature.bytes.size()) == 0) {
      return fmt::format(" (it looks like {})", signature.name);
    }
  }
  return "";
}

absl::Status Foreign(const Device& device, std::span<const std::byte> head) {
  return absl::FailedPreconditionError(fmt::format(
      "{} is foreign: it holds data that is not Ebb's{}", device.Describe(), LooksLike(head)));
}

absl::StatusOr<SuperblockReading> Use(const Device& device, const Superblock& superblock,
                                      std::string damage) {
  if (superblock.device_bytes != device.size_bytes()) {
    return absl::OutOfRangeError(
        fmt::format("{} {}: it has {} bytes and had {} when the node was made", device.Describe(),
                    device.size_bytes() < superblock.device_bytes ? "is truncated" : "has grown",
                    device.size_bytes(), superblock.device_bytes));
  }
  return SuperblockReading{.blank = false, .superblock = superblock, .damage = std::move(damage)};
}

}  // namespace

Uuid MakeUuid() {
  std::random_device entropy;
  Uuid uuid;
  for (uint8_t& byte : uuid) byte = static_cast<uint8_t>(entropy());
  uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0f) | 0x40);
  uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3f) | 0x80);
  return uuid;
}

std::string FormatUuid(const Uuid& uuid) {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

Uuid GroupUuid(const Uuid& node_uuid, uint32_t group_index) {
  Uuid uuid = node_uuid;
  uuid[14] = static_cast<uint8_t>(uuid[14] ^ group_index);
  return uuid;
}

absl::StatusOr<SuperblockReading> ReadSuperblock(Device& device) {
  const uint64_t size = device.size_bytes();
  if (size < 2 * kSuperblockBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} is too small for a device of a node", device.Describe()));
  }
  AlignedBuffer head(std::min(size, kBlankProbeBytes));
  AlignedBuffer tail(kSuperblockBytes);
  EBB_RETURN_IF_ERROR(Annotate(device.Read(0, head.span()), "superblock"));
  EBB_RETURN_IF_ERROR(Annotate(device.Read(size - kSuperblockBytes, tail.span()), "superblock"));

  const Copy first = Parse(head.span(0, kSuperblockBytes));
  const Copy last = Parse(tail.span());
  const bool first_valid = first.state == Copy::State::kValid;
  const bool last_valid = last.state == Copy::State::kValid;
  if (first_valid && last_valid) {
    // A crash between the two writes leaves the first one newer.
    return Use(device,
               first.superblock.epoch >= last.superblock.epoch ? first.superblock : last.superblock,
               "");
  }
  if (first_valid) {
    return Use(device, first.superblock, "the superblock's last copy " + last.fault);
  }
  if (last_valid) {
    return Use(device, last.superblock, "the superblock's first copy " + first.fault);
  }
  if (first.state == Copy::State::kDamaged || last.state == Copy::State::kDamaged) {
    return absl::DataLossError(
        fmt::format("{}: both copies of the superblock are damaged: the first {}, the last {}",
                    device.Describe(), first.fault, last.fault));
  }
  if (AllZero(head.span()) && AllZero(tail.span())) {
    return SuperblockReading{.blank = true, .superblock = {}, .damage = ""};
  }
  return Foreign(device, head.span());
}

absl::StatusOr<bool> HoldsOnlyPartsOf(Device& device, const Superblock& superblock) {
  constexpr size_t kSectorBytes = 512;
  const uint64_t size = device.size_bytes();
  AlignedBuffer expected(kSuperblockBytes);
  Format(superblock, expected.data());
  AlignedBuffer head(std::min(size, kBlankProbeBytes));
  AlignedBuffer tail(kSuperblockBytes);
  EBB_RETURN_IF_ERROR(Annotate(device.Read(0, head.span()), "superblock"));
  EBB_RETURN_IF_ERROR(Annotate(device.Read(size - kSuperblockBytes, tail.span()), "superblock"));
  for (const std::byte* copy : {head.data(), tail.data()}) {
    for (size_t at = 0; at < kSuperblockBytes; at += kSectorBytes) {
      const std::span<const std::byte> sector(copy + at, kSectorBytes);
      if (!AllZero(sector) && std::memcmp(sector.data(), expected.data() + at, kSectorBytes) != 0) {
        return false;
      }
    }
  }
  return AllZero(head.span().subspan(kSuperblockBytes));
}

absl::Status WriteSuperblock(Device& device, const Superblock& superblock) {
  if (superblock.device_bytes != device.size_bytes()) {
    return absl::InvalidArgumentError(
        fmt::format("superblock for {} bytes written to {} of {} bytes", superblock.device_bytes,
                    device.Describe(), device.size_bytes()));
  }
  AlignedBuffer block(kSuperblockBytes);
  Format(superblock, block.data());
  EBB_CHECK(Parse(block.span()).superblock == superblock);
  for (const uint64_t offset : {uint64_t{0}, device.size_bytes() - kSuperblockBytes}) {
    EBB_RETURN_IF_ERROR(Annotate(device.Write(offset, block.span()), "superblock"));
    EBB_RETURN_IF_ERROR(Annotate(device.Flush(), "superblock"));
  }
  return absl::OkStatus();
}

}  // namespace ebb::storage
