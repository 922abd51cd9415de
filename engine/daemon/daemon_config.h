// DaemonConfig: what `ebbd` is told by its configuration file and its flags.
//
// A flag wins over the file, the file over the default. Every fault of a file is found in one pass
// and named with line and column; an unknown key is a fault.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"
#include "engine/goal/goal.h"
#include "engine/history/series_retention.h"
#include "engine/loop/loop_config.h"

namespace ebb::engine {

struct DaemonConfig {
  std::string listen = "127.0.0.1:8377";  // or "unix:/path"
  std::string state_dir = "/var/lib/ebb";
  std::vector<std::string> attach;  // control sockets of nodes to tune from the start
  std::string agent = "preset_climb";
  std::string goal = "balanced";                   // or custom: then goal_weights says what counts
  std::map<std::string, double> goal_weights;      // component -> share; in the file only
  std::map<std::string, std::string> goal_limits;  // "read_p99" -> "2ms"; in the file only
  std::string mode = "auto";
  std::string on_exit = "keep";  // or restore: the setting from before attach
  uint64_t window_ns = kNsPerS;  // length of a measurement window, 100 ms to 1 min
  // Share of the windows in which the default runs, to measure what tuning brings; 0 to 0.5.
  std::optional<double> holdback_share;  // none: the engine's own
  std::string log_level = "info";
  // Keys keep_windows, keep_10s, keep_1min, keep_10min.
  SeriesRetention keep;
  // Spans of local time as schedule.h reads them; in the file only.
  std::vector<std::string> quiet_hours;
  std::vector<std::string> maintenance;
  std::vector<std::string> never_touch;  // knobs that no trial may move
  int64_t trials_per_hour = 120;         // on each node
};

// Reads the TOML text of a file called `name` on top of `config`. InvalidArgument: every fault, one
// a line, each as "name:line:column: what is wrong".
absl::Status ReadConfigText(std::string_view text, const std::string& name, DaemonConfig& config);
// The same from a file; NotFound or PermissionDenied when it cannot be read.
absl::Status ReadConfigFile(const std::string& path, DaemonConfig& config);

// The window of a text such as "1s" or "250ms".
absl::StatusOr<uint64_t> ParseWindowNs(std::string_view text);

// The share of a text such as "5%" or "2.5 %".
absl::StatusOr<double> ParseHoldbackShare(std::string_view text);

// Every fault of a whole configuration, one a line, each naming its key.
absl::Status CheckConfig(const DaemonConfig& config);

// The goal that it names; `config` has no fault.
Goal GoalOf(const DaemonConfig& config);

// What it says about the control loop, on top of `loop`; `config` has no fault.
void ApplyConfig(const DaemonConfig& config, LoopConfig& loop);

// The configuration as a file that says the same, for --check-config.
std::string ConfigText(const DaemonConfig& config);

}  // namespace ebb::engine
