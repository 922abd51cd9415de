#include "base/trace/trace_content.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <lz4.h>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace ebb::trace {
namespace {

using Block = std::vector<std::byte>;

// A block whose first `noise` bytes are random and the rest text.
Block Mixed(size_t noise, uint64_t seed, size_t bytes = 4096) {
  const std::string text = "the quick brown fox jumps over the lazy dog, again and ";
  Block block(bytes);
  Rng rng(seed);
  for (size_t i = 0; i < bytes; ++i) {
    block[i] = static_cast<std::byte>(i < noise ? rng.Next()
                                                : static_cast<uint64_t>(text[i % text.size()]));
  }
  return block;
}

Block StandIn(uint64_t fingerprint, size_t bytes = 4096) {
  Block block(bytes);
  MakeContent(fingerprint, block);
  return block;
}

double Lz4Share(const Block& block) {
  std::vector<char> out(static_cast<size_t>(LZ4_compressBound(static_cast<int>(block.size()))));
  const int stored =
      LZ4_compress_default(reinterpret_cast<const char*>(block.data()), out.data(),
                           static_cast<int>(block.size()), static_cast<int>(out.size()));
  return std::min(1.0, static_cast<double>(stored) / static_cast<double>(block.size()));
}

uint64_t FingerprintOf(const Block& block) { return DescribeContent(0, block).fingerprints.at(0); }

TEST(TraceContentTest, EqualBlocksHaveEqualFingerprints) {
  EXPECT_EQ(FingerprintOf(Mixed(500, 1)), FingerprintOf(Mixed(500, 1)));
  EXPECT_NE(FingerprintOf(Mixed(500, 1)), FingerprintOf(Mixed(500, 2)));
}

TEST(TraceContentTest, ZeroesHaveFingerprintZeroAndComeBackAsZeroes) {
  const Block zeroes(4096);

  EXPECT_EQ(FingerprintOf(zeroes), 0U);
  EXPECT_EQ(StandIn(0), zeroes);
  EXPECT_NE(FingerprintOf(Mixed(0, 1)), 0U);
}

// Goal: a stand-in shrinks like the block it stands for, to one of the 16 levels.
TEST(TraceContentTest, StandInsKeepTheCompressibility) {
  for (size_t noise = 0; noise <= 4096; noise += 64) {
    const Block original = Mixed(noise, noise);

    const Block stand_in = StandIn(FingerprintOf(original));

    EXPECT_NEAR(Lz4Share(stand_in), Lz4Share(original), 1.0 / 16) << noise;
  }
}

TEST(TraceContentTest, StandInsAreDeterministicAndDistinct) {
  std::set<Block> blocks;
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t fingerprint = Rng(i).Next();
    EXPECT_EQ(StandIn(fingerprint), StandIn(fingerprint));
    blocks.insert(StandIn(fingerprint));
  }

  EXPECT_EQ(blocks.size(), 1000U);
}

// Goal: a replayed trace, recorded again, is the same in duplicates and compressibility.
TEST(TraceContentTest, StandInsHaveTheLevelOfTheirFingerprint) {
  for (uint64_t i = 1; i < 2000; ++i) {
    const uint64_t fingerprint = Rng(i).Next();
    const uint64_t again = FingerprintOf(StandIn(fingerprint));

    EXPECT_EQ(again & 0xf, fingerprint & 0xf) << fingerprint;
  }
}

TEST(TraceContentTest, RequestsAreCutAtBlocks) {
  const Block data = Mixed(10'000, 9, 10'000);

  const WriteContent content = DescribeContent(4096 - 512, data);

  ASSERT_EQ(content.fingerprints.size(), 4U);
  Block made(data.size());
  MakeContent(4096 - 512, content.fingerprints, made);
  EXPECT_EQ(Block(made.begin() + 512, made.begin() + 512 + 4096), StandIn(content.fingerprints[1]));
  EXPECT_EQ(content.compressed_per_mille, 1000);
}

TEST(TraceContentTest, CompressibilityOfARequestIsPerMille) {
  EXPECT_NEAR(DescribeContent(0, Mixed(8192, 1, 16384)).compressed_per_mille, 500, 40);
  EXPECT_LT(DescribeContent(0, Mixed(0, 1, 16384)).compressed_per_mille, 30);
  EXPECT_EQ(DescribeContent(0, {}).fingerprints.size(), 0U);
}

}  // namespace
}  // namespace ebb::trace
