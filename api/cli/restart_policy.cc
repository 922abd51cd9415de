#include "api/cli/restart_policy.h"

#include <csignal>

#include <sys/wait.h>

namespace ebb::cli {
namespace {

bool IsCrash(int wait_state) {
  if (!WIFSIGNALED(wait_state)) return false;
  switch (WTERMSIG(wait_state)) {
    case SIGABRT:
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool RestartPolicy::StartsAgain(int wait_state, uint64_t now_ns) {
  if (!IsCrash(wait_state)) return false;
  while (!crashes_ns_.empty() && now_ns - crashes_ns_.front() > kWindowNs) crashes_ns_.pop_front();
  crashes_ns_.push_back(now_ns);
  return crashes_ns_.size() <= kCrashesMax;
}

}  // namespace ebb::cli
