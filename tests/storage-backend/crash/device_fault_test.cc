// The n-th transfer of a kind fails on one of the devices, for n = 1, 2, 3, ... until the workload
// passes without meeting the fault. Nothing that was promised may be lost, nothing wrong be read.
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "fmt/format.h"
#include "tests/storage-backend/crash/crash_workload.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kBlocks = 128;

using Fault = FaultyDisk::Fault;
using Case = std::tuple<bool, Io::Kind, Fault>;  // on the cache device, what fails, how

std::string NameOf(const Case& fault_case) {
  const auto& [on_cache, kind, fault] = fault_case;
  const char* kinds[] = {"Read", "Write", "Flush"};
  const char* faults[] = {"IoError", "NoSpace", "Short"};
  return fmt::format("{}{}{}", on_cache ? "Cache" : "Capacity", kinds[static_cast<size_t>(kind)],
                     faults[static_cast<size_t>(fault)]);
}

class DeviceFaultTest : public ::testing::TestWithParam<Case> {};

// What happens with the n-th transfer failing: a fault in words, or "". `met`: the workload came
// to it.
std::string RunWithFault(const Case& fault_case, uint64_t seed, uint64_t nth, bool* met) {
  const auto& [on_cache, kind, fault] = fault_case;
  CrashNode node({.seed = seed, .volume_blocks = kBlocks});
  CrashWorkload workload(node, seed, kBlocks);
  std::string trouble = workload.Recover();
  if (!trouble.empty()) return "before the fault: " + trouble;

  FaultyDisk& disk = on_cache ? node.cache() : node.capacity(0);
  disk.FailNth(kind, nth, fault);
  workload.ExpectErrors(true);
  trouble = workload.Run(80);
  *met = disk.counts().faults > 0;
  if (!trouble.empty()) return trouble;

  // The device is replaced by one that works, with the same content: after a restart everything
  // that a flush covered is there.
  workload.ExpectErrors(false);
  node.Reboot(seed + nth);
  trouble = workload.Recover();
  if (!trouble.empty()) return "after the restart: " + trouble;
  if (const absl::Status drained = node.volume().Drain(nullptr); !drained.ok()) {
    return "drain after the restart: " + drained.ToString();
  }
  trouble = workload.Verify();
  if (!trouble.empty()) return "after the drain: " + trouble;
  return node.CheckCapacity();
}

TEST_P(DeviceFaultTest, LosesNothingThatWasFlushed) {
  for (const uint64_t seed : {1, 2}) {
    uint64_t nth = 1;
    for (bool met = true; met; ++nth) {
      ASSERT_EQ(RunWithFault(GetParam(), seed, nth, &met), "")
          << NameOf(GetParam()) << ", seed " << seed << ", transfer " << nth;
      ASSERT_LT(nth, 5000U);
    }
    EXPECT_GT(nth, 5U) << "the workload hardly uses the device";
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceFaultTest,
                         ::testing::Values(Case{true, Io::Kind::kRead, Fault::kIoError},
                                           Case{true, Io::Kind::kWrite, Fault::kIoError},
                                           Case{true, Io::Kind::kWrite, Fault::kShort},
                                           Case{true, Io::Kind::kFlush, Fault::kIoError},
                                           Case{false, Io::Kind::kRead, Fault::kIoError},
                                           Case{false, Io::Kind::kWrite, Fault::kIoError},
                                           Case{false, Io::Kind::kWrite, Fault::kNoSpace},
                                           Case{false, Io::Kind::kFlush, Fault::kIoError}),
                         [](const auto& test) { return NameOf(test.param); });

}  // namespace
}  // namespace ebb::storage
