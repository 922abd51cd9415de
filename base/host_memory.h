// How much memory the machine has.
#pragma once

#include <cstdint>

namespace ebb {

// 0 when the system does not tell.
uint64_t HostMemoryBytes();

}  // namespace ebb
