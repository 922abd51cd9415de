// Small helpers of the device tests: blocks with a recognisable content, scratch folders.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/rng.h"

namespace ebb::storage {

// `bytes` of noise that only `seed` determines.
inline AlignedBuffer Noise(size_t bytes, uint64_t seed) {
  AlignedBuffer buffer(bytes);
  Rng rng(seed);
  for (std::byte& byte : buffer.span()) byte = static_cast<std::byte>(rng.Next());
  return buffer;
}

// A folder that vanishes with the object.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& parent = "/tmp") {
    std::string name = parent + "/ebb-device-test-" + std::string(6, 'X');
    EBB_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace ebb::storage
