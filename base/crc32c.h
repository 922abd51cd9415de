// CRC-32C (Castagnoli), as iSCSI and ext4 use it. Hardware instruction where the CPU has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ebb {

// The CRC of `data`, continuing from `crc` (0 to start). Crc32c("123456789") == 0xe3069283.
uint32_t Crc32c(std::span<const std::byte> data, uint32_t crc = 0);

}  // namespace ebb
