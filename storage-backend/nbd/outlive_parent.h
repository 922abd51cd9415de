// OutliveParent undoes what nbdkit 1.32 does to itself in the foreground.
#pragma once

namespace ebb::storage {

// nbdkit 1.32 asks the kernel for SIGTERM at its parent's death even without --exit-with-parent, so
// a node would end with the shell or `ebb node start` that started it. Takes the request back,
// unless that option was given. To be called on nbdkit's main thread.
void OutliveParent();

}  // namespace ebb::storage
