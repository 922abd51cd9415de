// Ctrl-C and SIGTERM end what a program is doing, in order: what there is by then is finished.
#pragma once

#include <atomic>

namespace ebb {

// Whether it is to end. Others may set it, too.
std::atomic<bool>& Interrupted();
// From now on the first signal sets that, and a second one ends the program as ever. Returns it.
std::atomic<bool>& CatchInterrupts();

}  // namespace ebb
