#include "env/twin/model_file.h"

#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::twin {
namespace {

using storage::DiskParameters;
using storage::FlashParameters;
using ::testing::HasSubstr;
using ::testing::Not;

std::string FaultOf(std::string_view text) {
  return std::string(ParseNodeModel(text, "fit.toml", {}).status().message());
}

TEST(ModelFileTest, WhatIsWrittenIsReadBack) {
  NodeModel node;
  node.cores = 6;
  node.workers = 32;
  node.client_overhead_ns = 12'345;
  node.cpu.group_close = 4'321.5;
  node.cpu.compress_byte[2] = 2.25;
  node.codec.size_against_lz4[3] = 0.99;
  node.codec.size_per_halving = 0.5;
  node.metadata.commit_ns = 1e6;
  auto flash = std::get<FlashParameters>(*storage::ServiceParametersOf("nvme"));
  flash.dies = 12;
  flash.buffer_bytes = 123'456'789;
  node.cache_fitted = flash;
  auto disk = std::get<DiskParameters>(*storage::ServiceParametersOf("disk-7200"));
  disk.seek_slope_ns = 20.5e6;
  node.capacity_fitted = disk;

  const std::string text = FormatNodeModel(node, "one\ntwo");
  const auto back = ParseNodeModel(text, "fit.toml", {});

  ASSERT_TRUE(back.ok()) << back.status() << "\n" << text;
  EXPECT_THAT(text, HasSubstr("# one\n# two\n"));
  EXPECT_EQ(back->cores, 6);
  EXPECT_EQ(back->workers, 32);
  EXPECT_EQ(back->client_overhead_ns, 12'345u);
  EXPECT_EQ(back->cpu.group_close, 4'321.5);
  EXPECT_EQ(back->cpu.compress_byte[2], 2.25);
  EXPECT_EQ(back->codec.size_against_lz4[3], 0.99);
  EXPECT_EQ(back->codec.size_per_halving, 0.5);
  EXPECT_EQ(back->metadata.commit_ns, 1e6);
  const auto& cache = std::get<FlashParameters>(*back->cache_fitted);
  EXPECT_EQ(cache.dies, 12u);
  EXPECT_EQ(cache.buffer_bytes, 123'456'789u);
  EXPECT_EQ(cache.read_ns, flash.read_ns);
  EXPECT_EQ(std::get<DiskParameters>(*back->capacity_fitted).seek_slope_ns, 20.5e6);
}

TEST(ModelFileTest, WhatIsLeftOutStays) {
  NodeModel base;
  base.cpu.write_block = 777;
  base.cores = 5;

  const auto node = ParseNodeModel("[cpu]\nread_block = 650\n", "fit.toml", base);

  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->cpu.read_block, 650);
  EXPECT_EQ(node->cpu.write_block, 777);
  EXPECT_EQ(node->cores, 5);
  EXPECT_FALSE(node->cache_fitted.has_value());
}

TEST(ModelFileTest, DevicesAloneHaveNoCosts) {
  NodeModel node;
  node.capacity_fitted = storage::ServiceParametersOf("sata-ssd");
  const std::string text = FormatNodeModel(node, "", {.node = false});
  EXPECT_THAT(text, Not(HasSubstr("[cpu]")));
  EXPECT_THAT(text, HasSubstr("[capacity]"));
}

TEST(ModelFileTest, FaultsHaveTheirPlaceAndTheNearestName) {
  EXPECT_THAT(FaultOf("[cpu]\nwrite_blok = 5\n"), HasSubstr("fit.toml:2:"));
  EXPECT_THAT(FaultOf("[cpu]\nwrite_blok = 5\n"), HasSubstr("did you mean write_block"));
  EXPECT_THAT(FaultOf("[cashe]\nfamily = \"flash\"\n"), HasSubstr("did you mean cache"));
  EXPECT_THAT(FaultOf("[cpu]\nread_block = \"fast\"\n"), HasSubstr("is a number"));
  EXPECT_THAT(FaultOf("[cpu]\nread_block = -1\n"), HasSubstr("is a number within"));
  EXPECT_THAT(FaultOf("[node]\ncores = 0\n"), HasSubstr("within 1 to 256"));
  EXPECT_THAT(FaultOf("[cpu]\ncompress_byte = [1, 2]\n"), HasSubstr("four numbers"));
  EXPECT_THAT(FaultOf("[cache]\ndies = 4\n"), HasSubstr("family"));
  EXPECT_THAT(FaultOf("[cache]\nfamily = \"flash\"\ndies = 0\n"), HasSubstr("dies"));
  EXPECT_THAT(FaultOf("[cache]\nfamily = \"disk\"\ndies = 4\n"), HasSubstr("no key dies"));
  EXPECT_THAT(FaultOf("cpu = 5\n"), HasSubstr("is a table"));
  EXPECT_THAT(FaultOf("[cpu\n"), HasSubstr("fit.toml:1:"));
}

}  // namespace
}  // namespace ebb::twin
