// MayBlock is called before a thread waits for anything but a short lock: a device, a throttle,
// room. Whoever gave the thread its work can then let another go on meanwhile (the NBD front end
// does). Costs a load and a branch where nobody asked.
#pragma once

#include <atomic>

namespace ebb {

using MayBlockHook = void (*)();

namespace internal {
inline std::atomic<MayBlockHook> may_block_hook = nullptr;
}  // namespace internal

// For the process; nullptr: none. Before the threads that it concerns.
inline void SetMayBlockHook(MayBlockHook hook) {
  internal::may_block_hook.store(hook, std::memory_order_release);
}

inline void MayBlock() {
  if (const MayBlockHook hook = internal::may_block_hook.load(std::memory_order_acquire)) hook();
}

}  // namespace ebb
