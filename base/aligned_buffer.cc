#include "base/aligned_buffer.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace ebb {

AlignedBuffer::AlignedBuffer(size_t bytes)
    : bytes_((bytes + kAlignment - 1) / kAlignment * kAlignment) {
  if (bytes_ == 0) return;
  data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes_));
  EBB_CHECK(data_ != nullptr);
  std::memset(data_, 0, bytes_);
}

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace ebb
