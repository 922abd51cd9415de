// An NBD server under measurement: our node as `ebb node start` runs it, or a peer under nbdkit.
//
// It is stopped (SIGSTOP) except between Resume and Pause, so that nothing it does on its own takes
// time from another one's turn.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/support/child_process.h"
#include "storage-backend/control/node_config.h"

namespace ebb::storage_bench {

class NbdServer {
 public:
  // `arguments` of nbdkit after its socket. Paused when it returns.
  static absl::StatusOr<std::unique_ptr<NbdServer>> StartPeer(
      const std::string& folder, const std::string& name,
      const std::vector<std::string>& arguments);
  // Our node; its devices, sockets and state lie where `config` says, its file in `folder`.
  static absl::StatusOr<std::unique_ptr<NbdServer>> StartNode(const std::string& folder,
                                                              const storage::NodeConfig& config);
  ~NbdServer();
  NbdServer(const NbdServer&) = delete;
  NbdServer& operator=(const NbdServer&) = delete;

  void Resume();
  void Pause();
  // Destages until nothing is dirty; nothing to do for a peer. To be called when resumed.
  absl::Status Drain();
  // Processor time it used so far.
  double CpuSeconds() const;

  std::string uri() const { return "nbd+unix:///?socket=" + socket_; }
  const std::string& name() const { return name_; }

 private:
  NbdServer(std::string name, std::string socket) : name_(name), socket_(socket) {}
  absl::Status WaitReady();

  const std::string name_;
  const std::string socket_;
  std::string control_socket_;  // of our node
  std::unique_ptr<experiments::ChildProcess> process_;
};

// Resumes a server for the time of one measurement.
class Turn {
 public:
  explicit Turn(NbdServer& server) : server_(server) { server_.Resume(); }
  ~Turn() { server_.Pause(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  NbdServer& server_;
};

}  // namespace ebb::storage_bench
