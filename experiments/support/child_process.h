// ChildProcess: a program that an experiment started, ended by its own process id.
//
// It runs in a process group of its own, so that Ctrl-C reaches the experiment alone, which then
// ends its children in order; should the experiment itself be killed, the kernel ends them
// (parent-death signal, unless asked otherwise). Output goes to a log file. Not thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebb::experiments {

class ChildProcess {
 public:
  // `command`: path or name of the program, then its arguments. `log_path` is appended to. Fails
  // when the program cannot be started at all. `die_with_parent`: the kernel ends it with the
  // experiment.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(std::vector<std::string> command,
                                                             const std::string& log_path,
                                                             bool die_with_parent = true);
  // Takes over a child that was started otherwise.
  static std::unique_ptr<ChildProcess> Adopt(pid_t pid, std::string name, std::string log_path);
  // Stops it when it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool IsRunning();
  // Waits at most `timeout_ms`, less when `stop` becomes true. OK when it ended with exit code 0.
  // DeadlineExceeded while it runs; Internal, with the end of its log, when it failed.
  absl::Status Wait(uint64_t timeout_ms, const std::atomic<bool>* stop = nullptr);
  // SIGTERM, and SIGKILL after `grace_ms`, to its whole group. It has ended when this returns.
  void Stop(uint64_t grace_ms = 5'000);

  // Lets it run on after this object: no Stop at the end.
  void Leave() { ended_ = true; }

  pid_t pid() const { return pid_; }
  const std::string& name() const { return name_; }
  // The last lines of its log, for messages.
  std::string LogTail() const;

 private:
  ChildProcess(pid_t pid, std::string name, std::string log_path, int64_t log_start)
      : pid_(pid), name_(std::move(name)), log_path_(std::move(log_path)), log_start_(log_start) {}

  pid_t pid_;
  std::string name_;
  std::string log_path_;
  int64_t log_start_;  // where this process's own output begins
  bool ended_ = false;
  int wait_status_ = 0;
};

// Runs `command` to its end and answers with its standard output; errors carry its standard error.
absl::StatusOr<std::string> RunAndRead(const std::vector<std::string>& command,
                                       const std::string& scratch_dir, uint64_t timeout_ms);

}  // namespace ebb::experiments
