#include "env/twin/fit/codec_ratios.h"

#include <string>

#include <gtest/gtest.h>

#include "base/aligned_buffer.h"
#include "base/rng.h"
#include "base/trace/trace_content.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::twin {
namespace {

AlignedBuffer MadeContent(uint64_t level) {
  AlignedBuffer data(kMiB);
  for (size_t at = 0; at < data.size(); at += 4096) {
    trace::MakeContent((at << 4) | level, data.span(at, 4096));
  }
  return data;
}

TEST(CodecRatiosTest, MadeContentGainsLittleFromZstd) {
  const CodecRatios ratios = MeasureCodecRatios(MadeContent(5).span());
  EXPECT_EQ(ratios.size_against_lz4[1], 1);
  EXPECT_GT(ratios.size_against_lz4[2], 0.9);
  EXPECT_LT(ratios.size_against_lz4[2], 1.1);
  EXPECT_LT(ratios.size_per_halving, 0.03);
}

TEST(CodecRatiosTest, TextGainsMuch) {
  std::string text;
  Rng rng(3);
  while (text.size() < kMiB) {
    text += fmt::format("{{\"block\": {}, \"from\": \"device-{}\", \"ok\": true}}\n",
                        rng.Below(1 << 20), rng.Below(7));
  }
  const CodecRatios ratios = MeasureCodecRatios(std::as_bytes(std::span(text)).first(kMiB));
  EXPECT_LT(ratios.size_against_lz4[2], 0.85);
  EXPECT_GT(ratios.size_per_halving, 0.01);
}

TEST(CodecRatiosTest, WhatDoesNotShrinkSaysNothing) {
  const CodecRatios ratios = MeasureCodecRatios(MadeContent(15).span());
  EXPECT_EQ(ratios.size_against_lz4[2], CodecRatios().size_against_lz4[2]);
  EXPECT_EQ(ratios.size_per_halving, CodecRatios().size_per_halving);
}

}  // namespace
}  // namespace ebb::twin
