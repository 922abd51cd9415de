#include "storage-backend/log/window_reader.h"

#include <algorithm>

#include "base/status.h"
#include "storage-backend/log/log_format.h"

namespace ebb::storage {

WindowReader::WindowReader(Device& device, uint32_t window_blocks)
    : window_blocks_(window_blocks), queue_(device.MakeQueue(kWindows)) {}

WindowReader::~WindowReader() {
  for (const Window& window : windows_) WaitFor(window);
}

WindowReader::Window* WindowReader::Find(uint32_t block) {
  for (Window& window : windows_) {
    if (window.Holds(block)) return &window;
  }
  return nullptr;
}

void WindowReader::Submit(Window& window, uint32_t first, uint32_t until) {
  if (window.buffer.size() == 0) {
    window.buffer = AlignedBuffer(size_t{window_blocks_} * kCacheBlockBytes);
  }
  window.first = first;
  window.count = std::min(window_blocks_, until - first);
  window.in_flight = true;
  window.passed = false;
  window.io = {.kind = Io::Kind::kRead,
               .offset = uint64_t{first} * kCacheBlockBytes,
               .data = window.buffer.data(),
               .bytes = size_t{window.count} * kCacheBlockBytes,
               .context = &window};
  queue_->Submit(&window.io);
  next_ = first + window.count;
}

void WindowReader::ReadAhead(uint32_t block, uint32_t until, Range follow) {
  for (Window& window : windows_) {
    if (window.in_flight || !window.passed) continue;
    if (next_ == until && follow.until != 0) next_ = follow.first;
    if (next_ > block && next_ < until) {
      Submit(window, next_, until);
    } else if (next_ >= follow.first && next_ < follow.until) {
      Submit(window, next_, follow.until);
    } else {
      return;
    }
  }
}

void WindowReader::WaitFor(const Window& window) {
  while (window.in_flight) {
    for (Io* io : queue_->Reap(1)) static_cast<Window*>(io->context)->in_flight = false;
  }
}

absl::StatusOr<std::span<const std::byte>> WindowReader::At(uint32_t block, uint32_t until,
                                                            Range follow) {
  Window* window = Find(block);
  if (window == nullptr) {
    for (Window& other : windows_) {
      WaitFor(other);
      other.count = 0;
      other.passed = true;
    }
    window = &windows_[0];
    Submit(*window, block, std::max(until, block + 1));
  } else if (window != current_) {
    current_->passed = true;
  }
  current_ = window;
  ReadAhead(block, until, follow);
  WaitFor(*window);
  if (!window->io.status.ok()) {
    window->count = 0;  // asked again, it is read again
    return Annotate(window->io.status, "cache log recovery");
  }
  return std::span<const std::byte>(
      window->buffer.span(size_t{block - window->first} * kCacheBlockBytes, kCacheBlockBytes));
}

}  // namespace ebb::storage
