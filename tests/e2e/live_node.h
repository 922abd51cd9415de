// A real node on files in a scratch folder, fio as its client, and the daemon's REST interface, for
// tests of the whole. Everything listens on unix sockets in the folder and ends with the object.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace ebb::testing {

// Asks until `holds` or the time is over; the last answer.
bool Eventually(const std::function<bool()>& holds, int seconds);

class LiveNode {
 public:
  // Starts a node with a cache of 256 MiB shaped as NVMe and one capacity device shaped as a disk
  // (32 times faster than one, for the tests' sake). `setting`: TOML lines of its first setting.
  explicit LiveNode(const std::string& setting = "");
  ~LiveNode();
  LiveNode(const LiveNode&) = delete;
  LiveNode& operator=(const LiveNode&) = delete;

  const std::string& folder() const { return scratch_.path(); }
  std::string control_socket() const { return folder() + "/node/control.sock"; }
  std::string api_socket() const { return folder() + "/api.sock"; }
  std::string config() const { return folder() + "/node/node.toml"; }
  std::string nbd_uri() const { return "nbd+unix:///?socket=" + folder() + "/node/nbd.sock"; }

  // Why the node could not be started; empty: it runs.
  const std::string& fault() const { return fault_; }

  // Everything to the capacity tier; what went wrong, or an empty text.
  std::string Drain() const;
  // fio to its end; its exit code must be 0.
  ProgramResult RunFio(const std::vector<std::string>& job) const;
  // fio in the background until the object ends.
  void StartFio(const std::vector<std::string>& job);

  // `program`: "ebbd" or "ebb_test_daemon"; waits until it is ready.
  void StartDaemon(const std::string& program, std::vector<std::string> arguments);
  BackgroundProgram& daemon() { return *daemon_; }
  void ForgetDaemon() { daemon_.reset(); }

  ProgramResult Ebb(std::vector<std::string> arguments) const;
  // curl on the REST interface: the body, or an empty text.
  std::string Curl(const std::string& target) const;
  nlohmann::json Get(const std::string& target) const;
  // A call on the node's control socket.
  nlohmann::json Control(const std::string& method) const;
  // What to print when a test fails.
  std::string Diagnosis() const;

 private:
  ScratchFolder scratch_;
  std::string fault_;
  std::unique_ptr<BackgroundProgram> fio_;
  std::unique_ptr<BackgroundProgram> daemon_;
};

}  // namespace ebb::testing
