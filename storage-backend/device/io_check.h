// Checks that every Device makes of a request, so that a caller's mistake shows on MemDevice too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace ebb::storage {

// All our devices transfer whole blocks of this size, at offsets and in memory aligned to it. It is
// what O_DIRECT needs on every disk, those with 4096-byte sectors included.
inline constexpr uint32_t kDeviceBlockBytes = 4096;

// OK when [offset, offset + bytes) is whole blocks inside a device of `device_bytes` bytes and
// `data` is aligned (a null `data` is not checked: discards have none). OutOfRange or
// InvalidArgument says what is wrong.
absl::Status CheckTransfer(uint64_t offset, uint64_t bytes, const std::byte* data,
                           uint64_t device_bytes);

}  // namespace ebb::storage
