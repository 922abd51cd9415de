// WindowReader reads a device nearly sequentially, block by block, with several large reads in
// flight.
//
// The caller says with each block how far reading on is worth it, so that a jump from header to
// header costs a block and a scan runs at the device's own speed. Memory is bounded by kWindows
// windows, made when first needed. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "storage-backend/device/device.h"

namespace ebb::storage {

class WindowReader {
 public:
  static constexpr size_t kWindows = 8;

  WindowReader(Device& device, uint32_t window_blocks);
  ~WindowReader();  // waits for what is in flight

  struct Range {
    uint32_t first = 0;
    uint32_t until = 0;  // exclusive; 0: no range
  };
  // The 4 KiB block number `block`; blocks up to `until` (exclusive) are likely to be wanted next,
  // and then those of `follow`. Valid until the next call.
  absl::StatusOr<std::span<const std::byte>> At(uint32_t block, uint32_t until, Range follow);
  absl::StatusOr<std::span<const std::byte>> At(uint32_t block, uint32_t until) {
    return At(block, until, {});
  }

 private:
  struct Window {
    AlignedBuffer buffer;
    uint32_t first = 0;
    uint32_t count = 0;  // 0: holds nothing
    bool in_flight = false;
    bool passed = true;  // the reader has gone on to another
    Io io;
    bool Holds(uint32_t block) const { return block - first < count; }
  };

  Window* Find(uint32_t block);
  void Submit(Window& window, uint32_t first, uint32_t until);
  // Starts reads of what follows, into windows that were passed.
  void ReadAhead(uint32_t block, uint32_t until, Range follow);
  void WaitFor(const Window& window);

  const uint32_t window_blocks_;
  std::unique_ptr<IoQueue> queue_;
  std::array<Window, kWindows> windows_;
  Window* current_ = nullptr;
  uint32_t next_ = 0;  // first block behind what was asked of the device
};

}  // namespace ebb::storage
