// The power of all groups fails together at every write of a workload; whatever a flush had covered
// is there in all groups, and no group comes back with another one's past.
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "tests/storage-backend/volume/striped_fixture.h"

namespace ebb::storage {
namespace {

std::string LivesOf(size_t groups, uint64_t seed, uint64_t cut, uint64_t* writes) {
  StripedTestNode node(groups, seed);
  StripedWorkload workload(node, seed);
  Rng rng(seed * 1'000'003 + cut);
  if (cut != 0) node.power().CutAtWrite(cut);
  std::string fault = workload.Recover();
  if (fault.empty() && node.power().on()) fault = workload.Run(40);
  *writes = node.power().writes();
  for (int life = 1; fault.empty() && life <= 2; ++life) {
    node.Reboot(rng.Next());
    // The second life may end inside its own start.
    if (life == 1) node.power().CutAtWrite(node.power().writes() + 1 + rng.Below(60));
    fault = workload.Recover();
    if (fault.empty() && node.power().on()) fault = workload.Run(15);
  }
  if (fault.empty() && node.power().on()) fault = workload.VerifyAll();
  return fault;
}

TEST(StripedCrashTest, PowerCutAtEveryWrite) {
  uint64_t cuts = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const size_t groups = 1 + seed;  // 2, 3, 4
    uint64_t writes = 0;
    ASSERT_EQ(LivesOf(groups, seed, 0, &writes), "") << "seed " << seed << ", no cut";
    for (uint64_t cut = 1; cut <= writes; ++cut, ++cuts) {
      uint64_t unused = 0;
      ASSERT_EQ(LivesOf(groups, seed, cut, &unused), "")
          << "seed " << seed << ", cut at write " << cut << " of " << writes;
    }
  }
  fmt::print("{} power cuts\n", cuts);
}

}  // namespace
}  // namespace ebb::storage
