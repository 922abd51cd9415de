// A node's process: nbdkit with our plugin, started detached, seen through its log.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/control/node_config.h"

namespace ebb::cli {

struct NodeCommand {
  std::string nbdkit;  // the program's path
  std::vector<std::string> arguments;
  std::string preload;     // storage-backend/nbd/nbdkit_shim.cc as built
  std::string nbd_socket;  // empty: TCP
};

// How to run the node that the file `config_path` (absolute) describes. Unavailable when nbdkit or
// the plugin is not installed. `record_path`: a trace of all requests, or empty.
absl::StatusOr<NodeCommand> MakeNodeCommand(const storage::NodeConfig& config,
                                            const std::string& config_path,
                                            const std::string& record_path);

// Removes what a killed node left at its NBD socket. FailedPrecondition when something listens
// there or it is no socket.
absl::Status ClearNbdSocket(const storage::NbdConfig& nbd);

// A node that was started, with a supervisor that starts it again when it crashes.
//
// The supervisor is this process's child until the node is ready or has ended, and lives as long as
// the node: it ends with a node that was stopped or killed.
class NodeProcess {
 public:
  // Runs `command` in a session of its own, with both outputs appended to `log_path`.
  static absl::StatusOr<NodeProcess> Start(const NodeCommand& command, const std::string& log_path);

  // Waits until `is_ready` returns true. FailedPrecondition with the node's own sentence when it
  // ends before; DeadlineExceeded after `timeout_ns` (it runs on). `progress` gets the last line
  // that the node wrote about its progress, now and then.
  absl::Status WaitReady(const std::function<bool()>& is_ready, uint64_t timeout_ns,
                         const std::function<void(const std::string&)>& progress);

  // Whether process `pid` is the node: it has been started anew when it crashed.
  bool Owns(pid_t pid) const;

 private:
  NodeProcess(pid_t pid, std::string log_path, uint64_t log_begin)
      : pid_(pid), log_path_(std::move(log_path)), log_begin_(log_begin) {}

  std::string LogText() const;

  pid_t pid_;  // of the supervisor
  std::string log_path_;
  uint64_t log_begin_;  // size of the log before this start
};

// Takes this process's place by the node's: for --foreground, where a service manager supervises
// (systemd: Restart=on-abnormal). Returns only on failure.
absl::Status ExecNode(const NodeCommand& command);

// Waits until process `pid` (any process) is gone; false after `timeout_ns`. `progress` gets the
// seconds that passed.
absl::StatusOr<bool> WaitForExit(pid_t pid, uint64_t timeout_ns,
                                 const std::function<void(double)>& progress);

}  // namespace ebb::cli
