// GracefulStop ends nbdkit although clients stay connected.
//
// Asked to shut down, nbdkit stops accepting and each of its workers ends after its next request,
// so a busy connection is over soon, its last requests answered. But a worker that waits for a
// request waits until its client hangs up: an idle client would hold the node for ever. So once the
// node has been quiet for a moment, the reading side of each NBD connection is closed here, which
// looks to nbdkit as if the client had hung up. (Not earlier: nbdkit 1.32 aborts when a client dies
// of that while several workers are about to answer it.) SIGTERM and SIGINT take the same way.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "storage-backend/control/scoped_fd.h"

namespace ebb::storage {

class GracefulStop {
 public:
  struct Activity {
    uint64_t begun = 0;  // requests so far
    uint64_t in_flight = 0;
  };

  // Takes over SIGTERM and SIGINT. One object a process. `activity` is asked while it stops.
  static absl::StatusOr<std::unique_ptr<GracefulStop>> Install(std::function<Activity()> activity);
  // The last connection has ended.
  ~GracefulStop();

  // Begins the shutdown; does not wait. Thread-safe.
  void Begin();

 private:
  GracefulStop(ScopedFd wake, std::function<Activity()> activity)
      : wake_(std::move(wake)), activity_(std::move(activity)) {}
  void Run();

  const ScopedFd wake_;  // an eventfd: readable once a stop is due
  const std::function<Activity()> activity_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace ebb::storage
