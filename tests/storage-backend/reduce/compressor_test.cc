#include "storage-backend/reduce/compressor.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ebb::storage {
namespace {

using Bytes = std::vector<std::byte>;

Bytes RandomBytes(size_t bytes, uint64_t seed) {
  Rng rng(seed);
  Bytes data(bytes);
  for (std::byte& byte : data) byte = static_cast<std::byte>(rng.Next());
  return data;
}

Bytes Text(size_t bytes, uint64_t seed) {
  static const char* const kWords[] = {"the ", "burst ", "flows ", "in ", "and ", "ebbs ", "out "};
  Rng rng(seed);
  std::string text;
  while (text.size() < bytes) text += kWords[rng.Below(7)];
  Bytes data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(text[i]);
  return data;
}

class CodecTest : public ::testing::TestWithParam<Compression> {
 protected:
  Bytes Compress(const Bytes& raw) {
    Bytes out(MaxStoredBytes(raw.size()));
    out.resize(compressor_.Compress(GetParam(), raw, out));
    return out;
  }

  Compressor compressor_;
};

TEST_P(CodecTest, TextShrinksAndComesBack) {
  for (const size_t bytes : {4096u, 32768u, 131072u}) {
    const Bytes raw = Text(bytes, bytes);

    const Bytes stored = Compress(raw);

    ASSERT_GT(stored.size(), 0u);
    EXPECT_LT(stored.size(), bytes / 4 * 3);
    Bytes restored(bytes);
    ASSERT_TRUE(Decompress(GetParam(), stored, restored).ok());
    EXPECT_EQ(restored, raw);
  }
}

TEST_P(CodecTest, RandomBytesStayRaw) {
  for (const size_t bytes : {4096u, 32768u, 131072u}) {
    EXPECT_EQ(Compress(RandomBytes(bytes, bytes)).size(), 0u);
  }
}

// Goal: the sample that gives random data up early must not give up repetition of random data.
TEST_P(CodecTest, RepeatedRandomBlocksShrink) {
  const Bytes block = RandomBytes(4096, 1);
  Bytes raw;
  for (int i = 0; i < 8; ++i) raw.insert(raw.end(), block.begin(), block.end());

  const Bytes stored = Compress(raw);

  ASSERT_GT(stored.size(), 0u);
  EXPECT_LT(stored.size(), 3 * 4096u);
}

// Goal: never store more than seven eighths.
// Method: mix text into random bytes in every share and look at what is kept.
TEST_P(CodecTest, KeepsOnlyWhatSavesAnEighth) {
  bool some_raw = false;
  bool some_stored = false;
  for (size_t text_bytes = 0; text_bytes <= 32768; text_bytes += 1024) {
    Bytes raw = RandomBytes(32768 - text_bytes, text_bytes);
    const Bytes text = Text(text_bytes, 1);
    raw.insert(raw.end(), text.begin(), text.end());

    const Bytes stored = Compress(raw);

    (stored.empty() ? some_raw : some_stored) = true;
    EXPECT_LE(stored.size(), 28672u);
    if (stored.empty()) continue;
    Bytes restored(raw.size());
    ASSERT_TRUE(Decompress(GetParam(), stored, restored).ok());
    EXPECT_EQ(restored, raw);
  }
  EXPECT_TRUE(some_raw && some_stored);
}

// Goal: damage gives an error or other bytes, never a read or write out of bounds (run under asan).
TEST_P(CodecTest, DamagedInputIsSafe) {
  const Bytes raw = Text(8192, 3);
  const Bytes stored = Compress(raw);
  ASSERT_FALSE(stored.empty());
  for (size_t i = 0; i < stored.size(); ++i) {
    Bytes damaged = stored;
    damaged[i] ^= std::byte{0x41};
    Bytes restored(raw.size());
    (void)Decompress(GetParam(), damaged, restored);
  }
  Bytes restored(raw.size());
  EXPECT_EQ(Decompress(GetParam(), std::span(stored).first(stored.size() / 2), restored).code(),
            absl::StatusCode::kDataLoss);
  Bytes longer(raw.size() + 4096);
  EXPECT_EQ(Decompress(GetParam(), stored, longer).code(), absl::StatusCode::kDataLoss);
  Bytes shorter(raw.size() - 4096);
  EXPECT_EQ(Decompress(GetParam(), stored, shorter).code(), absl::StatusCode::kDataLoss);
}

INSTANTIATE_TEST_SUITE_P(All, CodecTest,
                         ::testing::Values(Compression::kLz4, Compression::kZstd1,
                                           Compression::kZstd3));

TEST(CompressorTest, OffStoresRaw) {
  Compressor compressor;
  const Bytes raw = Text(4096, 1);
  Bytes out(4096);

  EXPECT_EQ(compressor.Compress(Compression::kOff, raw, out), 0u);
  EXPECT_EQ(Decompress(Compression::kOff, raw, out).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace ebb::storage
