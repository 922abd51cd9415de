// AlignedBuffer: page-aligned memory for O_DIRECT, touched at creation.
//
// A first touch costs 9 to 18 us a page on virtual machines, so buffers are made once and kept.
// From 2 MiB on the kernel is asked for huge pages. Move-only.
#pragma once

#include <cstddef>
#include <span>

namespace ebb {

class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 4096;

  AlignedBuffer() = default;
  // Zero-filled and touched; aborts when the machine has no memory left. bytes is rounded up to a
  // page.
  explicit AlignedBuffer(size_t bytes);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  std::span<std::byte> span() { return {data_, bytes_}; }
  std::span<std::byte> span(size_t offset, size_t bytes) { return span().subspan(offset, bytes); }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace ebb
