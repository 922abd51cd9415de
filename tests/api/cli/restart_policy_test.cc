#include "api/cli/restart_policy.h"

#include <csignal>

#include "gtest/gtest.h"

namespace ebb::cli {
namespace {

// As waitpid tells it on Linux: the signal in the low bits, an exit code above.
constexpr int EndedBySignal(int signal_number) { return signal_number; }
constexpr int ExitedWith(int code) { return code << 8; }

TEST(RestartPolicyTest, ACrashIsAnsweredByANewStart) {
  for (const int crash : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    EXPECT_TRUE(RestartPolicy().StartsAgain(EndedBySignal(crash), 0)) << crash;
  }
}

TEST(RestartPolicyTest, WhoeverStoppedOrKilledItMeantIt) {
  RestartPolicy policy;

  EXPECT_FALSE(policy.StartsAgain(ExitedWith(0), 0));
  EXPECT_FALSE(policy.StartsAgain(ExitedWith(1), 0));
  EXPECT_FALSE(policy.StartsAgain(EndedBySignal(SIGKILL), 0));
  EXPECT_FALSE(policy.StartsAgain(EndedBySignal(SIGTERM), 0));
}

TEST(RestartPolicyTest, CrashesInARowEndIt) {
  RestartPolicy policy;
  uint64_t now_ns = 1;
  for (size_t i = 0; i < RestartPolicy::kCrashesMax; ++i) {
    EXPECT_TRUE(policy.StartsAgain(EndedBySignal(SIGABRT), ++now_ns));
  }

  EXPECT_FALSE(policy.StartsAgain(EndedBySignal(SIGABRT), ++now_ns));
}

TEST(RestartPolicyTest, OldCrashesAreForgotten) {
  RestartPolicy policy;
  uint64_t now_ns = 1;

  for (size_t i = 0; i < 4 * RestartPolicy::kCrashesMax; ++i) {
    now_ns += RestartPolicy::kWindowNs / 2;
    EXPECT_TRUE(policy.StartsAgain(EndedBySignal(SIGABRT), now_ns));
  }
}

}  // namespace
}  // namespace ebb::cli
