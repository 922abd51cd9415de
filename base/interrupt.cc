#include "base/interrupt.h"

#include <csignal>

namespace ebb {
namespace {

std::atomic<bool> interrupted = false;  // NOLINT: all that a signal handler may write

}  // namespace

std::atomic<bool>& Interrupted() { return interrupted; }

std::atomic<bool>& CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return interrupted;
}

}  // namespace ebb
