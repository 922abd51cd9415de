// What paces a node's background besides its knobs, in one place: the node and the twin read it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace ebb::storage {

// An open group of the log is written to the device at the latest when it is this old.
inline constexpr uint64_t kGroupAgeNs = 3 * kNsPerMs;
// Destage batches are larger, and use more of the devices, when no client asked for anything this
// long.
inline constexpr uint64_t kQuietNs = 100 * kNsPerMs;
inline constexpr int kQuietParallelism = 2;
inline constexpr uint64_t kQuietBatchFactor = 4;
inline constexpr uint64_t kQuietBatchBytesMax = 16 * kMiB;  // unless the knob asks for more
constexpr uint64_t QuietBatchBytes(uint64_t batch_bytes) {
  return std::max(batch_bytes, std::min(batch_bytes * kQuietBatchFactor, kQuietBatchBytesMax));
}
// Destage is behind when this share of the write space is in use.
inline constexpr double kBehindFill = 0.85;
// Writers run ahead of the throttle's schedule so far before they are held back: a sleep costs some
// microseconds of processor time, which at 100,000 writes a second would be all of it.
// No more than that, or a few writers would alternate between no wait and a long one.
inline constexpr uint64_t kHoldWorthNs = 100 * kNsPerUs;

}  // namespace ebb::storage
