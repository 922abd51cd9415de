#include "experiments/landscape_bench/families.h"

#include <map>
#include <string>

#include "base/units.h"
#include "gtest/gtest.h"

namespace ebb::landscape_bench {
namespace {

using twin::Request;
using twin::RequestKind;
using twin::RequestStream;

struct Shape {
  double requests = 0;
  double reads = 0;
  double flushes = 0;
};

Shape ShapeOf(const RequestStream& load) {
  Shape shape;
  bool begins = true;
  for (const Request& request : load.requests()) {
    if (begins) {
      shape.flushes += request.kind == RequestKind::kFlush ? 1 : 0;
      shape.reads += request.kind == RequestKind::kRead ? 1 : 0;
      shape.requests += request.kind == RequestKind::kFlush ? 0 : 1;
    }
    begins = (request.flags & Request::kContinues) == 0;
  }
  return shape;
}

TEST(FamiliesTest, AreManyAndEachComesAtTheRateAskedFor) {
  ASSERT_GE(Families().size(), 12U);
  std::map<std::string, double> read_shares;
  for (const Family& family : Families()) {
    SCOPED_TRACE(std::string(family.name));
    const auto load = MakeFamilyLoad(family, 400, 48, 4 * kGiB, 1);
    ASSERT_TRUE(load.ok()) << load.status();

    const Shape shape = ShapeOf(*load);

    EXPECT_NEAR(shape.requests, 400 * 48, 0.06 * 400 * 48);
    EXPECT_EQ(load->duration_ns(), 48 * kNsPerS);
    EXPECT_TRUE(read_shares.emplace(family.name, shape.reads / shape.requests).second);
    EXPECT_FALSE(family.what.empty());
    EXPECT_GT(family.utilisation, 0);
    EXPECT_LT(family.utilisation, 1);
  }
  EXPECT_EQ(read_shares["web-server"], 1);
  EXPECT_NEAR(read_shares["backup"], 0.05, 0.01);
  EXPECT_NEAR(read_shares["oltp"], 0.9 * 0.67, 0.02) << "database and log together";
}

TEST(FamiliesTest, TheSameSeedGivesTheSameLoadAndAnotherOneAnother) {
  const Family& family = Families()[0];
  const auto offsets = [&](uint64_t seed) {
    const auto load = MakeFamilyLoad(family, 500, 4, 4 * kGiB, seed);
    EXPECT_TRUE(load.ok());
    std::vector<uint64_t> result;
    for (const Request& request : load->requests()) result.push_back(request.first_block);
    return result;
  };

  EXPECT_EQ(offsets(7), offsets(7));
  EXPECT_NE(offsets(7), offsets(8));
}

TEST(FamiliesTest, AVolumeThatIsTooSmallIsRefused) {
  EXPECT_FALSE(MakeFamilyLoad(Families()[0], 500, 4, kGiB, 1).ok());
}

}  // namespace
}  // namespace ebb::landscape_bench
