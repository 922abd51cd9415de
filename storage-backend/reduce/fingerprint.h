// Fingerprint names the content of a block: equal fingerprints mean equal bytes.
//
// SHA-256, so that nobody can make two blocks that collide and no stored block has to be read back
// to compare (docs/adr/0001-dedup-fingerprint.md has the figures).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace ebb::storage {

using Fingerprint = std::array<std::byte, 32>;

// Computes fingerprints; keeps the digest's state between calls. Not thread-safe: one a thread.
class Fingerprinter {
 public:
  Fingerprinter();
  ~Fingerprinter();
  Fingerprinter(const Fingerprinter&) = delete;
  Fingerprinter& operator=(const Fingerprinter&) = delete;

  Fingerprint Of(std::span<const std::byte> data);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace ebb::storage
