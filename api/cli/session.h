// Session: what every command of `ebb` shares: where the daemon is, how output looks, and which
// command the arguments chose.
//
// Data goes to stdout and everything else to stderr. A command is an Action: it returns OK, or one
// sentence that says what is wrong and what to do next; its code decides the exit code.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace ebb::cli {

enum class Format : uint8_t { kTable, kJson, kCsv };

struct Session;
using Action = std::function<absl::Status(Session&)>;

struct Session {
  std::string url;  // empty: the daemon's default place
  Format format = Format::kTable;
  bool header = true;   // of tables and CSV
  bool colour = false;  // stdout is a terminal and NO_COLOR is unset
  Action chosen;        // set by the chosen subcommand's callback

  void Print(std::string_view text) const;  // to stdout
  void Note(std::string_view text) const;   // to stderr, one line
};

// Exit codes: 0 done, 1 error, 2 wrong arguments, 3 not reachable, 4 refused or conflict. The
// message of an InvalidArgument status is about the arguments; what a daemon found wrong with a
// request is Unknown or NotFound.
int ExitCode(const absl::Status& status);

// Each adds its subcommands to `app`; `session` must outlive it.
void AddNodeStateCommands(CLI::App& app, Session& session);  // attach, status, goal, pause, ...
void AddHistoryCommands(CLI::App& app, Session& session);    // changes, show, series
void AddKnobCommands(CLI::App& app, Session& session);       // knobs, pin, unpin
void AddRecommendationCommands(CLI::App& app, Session& session);

}  // namespace ebb::cli
