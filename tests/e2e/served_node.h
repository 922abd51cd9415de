// A node served by nbdkit that a test may kill, and NBD handles to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "absl/status/status.h"
#include "storage-backend/control/json_rpc_client.h"
#include "storage-backend/control/node_config.h"
#include "tests/support/program.h"

struct nbd_handle;

namespace ebb::testing {

// Runs until killed, stopped or forgotten; its files live as long as `folder`.
class ServedNode {
 public:
  // A node of small files in `folder`: cache of 64 MiB, two capacity devices of 256 MiB. The
  // configuration may be changed until Start.
  explicit ServedNode(const std::string& folder);

  storage::NodeConfig& config() { return config_; }
  // Serves; returns when the control socket answers. Else the sentence that nbdkit wrote.
  absl::Status Start();
  // kill -9, at whatever it is doing.
  void Kill();
  // SIGTERM; its exit code.
  int Terminate();
  bool IsRunning() { return process_ != nullptr && process_->IsRunning(); }
  pid_t pid() const { return process_->pid(); }

  std::string uri() const { return storage::NbdUri(config_.nbd); }
  std::string log_path() const { return folder_ + "/nbdkit.log"; }
  storage::JsonRpcClient& control() { return control_; }

 private:
  const std::string folder_;
  storage::NodeConfig config_;
  storage::JsonRpcClient control_;
  std::unique_ptr<BackgroundProgram> process_;
};

// A connected libnbd handle.
struct NbdClose {
  void operator()(nbd_handle* handle) const;
};
using NbdHandle = std::unique_ptr<nbd_handle, NbdClose>;
NbdHandle ConnectNbd(const std::string& uri);

}  // namespace ebb::testing
