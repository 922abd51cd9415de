// CRC-32C (Castagnoli), as iSCSI and ext4 use it: by carry-less multiplication or the CRC
// instruction where the CPU has them, else by a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ebb {

// The CRC of `data`, continuing from `crc` (0 to start). Crc32c("123456789") == 0xe3069283.
uint32_t Crc32c(std::span<const std::byte> data, uint32_t crc = 0);
// Copies `from` to `to` (which do not overlap) and returns the CRC of what was copied, continuing
// from `crc`: one pass over memory instead of two.
uint32_t Crc32cCopy(std::byte* to, std::span<const std::byte> from, uint32_t crc = 0);

}  // namespace ebb
