// Sidecar: ebbd and the command line `ebb`, driven the way an administrator would.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/support/child_process.h"

namespace ebb::demo {

// What `ebb status` and `ebb changes` tell, as far as the demo shows it.
struct SidecarView {
  std::string health;
  std::string state;
  std::string why;
  std::optional<double> index_now;
  uint64_t windows = 0;
  uint64_t void_windows = 0;
  std::string last_change;  // one line; empty when there was none
};

struct ChangeLine {
  std::string id;
  std::string knobs;  // "destage_parallelism 1 -> 2"
  std::string actor;
  std::string reason;
  std::string outcome;  // keep, revert, inconclusive, void, pending
  std::string outcome_reason;
  std::string effect;  // "+12.3 % (+8.0 to +16.8)", or "-"
};

// The JSON of `ebb --json status NODE` and `ebb --json changes`.
absl::StatusOr<SidecarView> ParseView(const std::string& json);
absl::StatusOr<std::vector<ChangeLine>> ParseChanges(const std::string& json);

class Sidecar {
 public:
  struct Config {
    std::string bin_dir;
    std::string scratch_dir;
    std::string agent;  // empty: the daemon's default
    bool die_with_demo = true;
  };
  // Starts ebbd on a free loopback port and waits until it is ready.
  static absl::StatusOr<std::unique_ptr<Sidecar>> Start(const Config& config);

  absl::Status Attach(const std::string& control_socket, const std::string& goal);
  absl::StatusOr<SidecarView> View();
  // Oldest first.
  absl::StatusOr<std::vector<ChangeLine>> Changes();
  absl::Status Pause(const std::string& reason);
  // OK while the daemon runs.
  absl::Status CheckAlive();
  void Stop() { process_->Stop(); }
  void Leave() { process_->Leave(); }

  const std::string& url() const { return url_; }
  pid_t pid() const { return process_->pid(); }

 private:
  Sidecar(Config config, std::string url) : config_(std::move(config)), url_(std::move(url)) {}
  absl::StatusOr<std::string> Ebb(std::vector<std::string> arguments);

  const Config config_;
  const std::string url_;
  std::string node_;
  std::unique_ptr<experiments::ChildProcess> process_;
};

// A loopback port that nobody listened on a moment ago.
absl::StatusOr<uint16_t> FreePort();

}  // namespace ebb::demo
