// DemoNode: the node under demonstration, a real one: nbdkit with the plugin, shaped devices on
// files in the scratch folder.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "env/node/node_environment.h"
#include "experiments/demo/scenario.h"
#include "experiments/support/child_process.h"

namespace ebb::demo {

class DemoNode {
 public:
  // Starts it and waits until its control socket answers.
  static absl::StatusOr<std::unique_ptr<DemoNode>> Start(const Options& options,
                                                         const NodeShape& shape,
                                                         const std::string& scratch_dir,
                                                         const std::atomic<bool>& stop);

  // Destages until nothing is dirty.
  absl::Status Drain(uint64_t timeout_ms, const std::atomic<bool>& stop);
  // OK while it runs and has met no fault of a device or a checksum.
  absl::Status CheckHealthy();
  // Asks it to flush and close; forced after a while.
  void Stop();
  void Leave() { process_->Leave(); }

  // The demo's own eyes on the node, in windows of 1 s: nothing goes through the sidecar.
  env::NodeEnvironment& environment() { return *environment_; }
  std::string control_socket() const { return folder_ + "/control.sock"; }
  std::string nbd_uri() const { return "nbd+unix:///?socket=" + folder_ + "/nbd.sock"; }
  pid_t pid() const { return process_->pid(); }

 private:
  explicit DemoNode(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
  std::unique_ptr<experiments::ChildProcess> process_;
  std::unique_ptr<env::NodeEnvironment> environment_;
};

}  // namespace ebb::demo
