#include "storage-backend/reduce/fingerprint.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace ebb::storage {
namespace {

std::string HexOf(Fingerprinter& fingerprinter, std::string_view text) {
  const Fingerprint fingerprint = fingerprinter.Of(std::as_bytes(std::span(text)));
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(fingerprint.data()), fingerprint.size()});
}

// The examples of FIPS 180-4; repeated, because the digest's state is kept between calls.
TEST(FingerprinterTest, IsSha256) {
  Fingerprinter fingerprinter;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(HexOf(fingerprinter, "abc"),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(HexOf(fingerprinter, ""),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  }
}

}  // namespace
}  // namespace ebb::storage
