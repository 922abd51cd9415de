// ebb: the command line of Ebb. Exit codes: see session.h.
#include <cstdlib>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "api/cli/history_verify_command.h"
#include "api/cli/node_commands.h"
#include "api/cli/session.h"
#include "api/cli/trace_commands.h"
#include "api/cli/twin_commands.h"
#include "base/nearest.h"
#include "fmt/format.h"

namespace {

using ebb::cli::Format;
using ebb::cli::Session;

constexpr const char* kFooter =
    "First steps:\n"
    "  ebb node start --dir DIR                  run a node (see 'ebb node start --help')\n"
    "  ebb attach /run/ebb/alpha/control.sock    tune a running node\n"
    "  ebb status                                how it is, what the tuner does and why\n"
    "  ebb changes                               everything that was tried, and what came of it\n"
    "  ebb pause --for 1h                        leave the node alone for an hour\n"
    "  ebb restore                               back to the setting from before attach\n"
    "\n"
    "NODE may be left out when one node is attached. 'ebb COMMAND --help' has more examples.\n"
    "Exit codes: 0 done, 1 error, 2 wrong arguments, 3 daemon not reachable, 4 refused.";

void AddGlobalOptions(CLI::App& app, Session& session) {
  app.add_option("--url", session.url,
                 "the daemon's address: http://127.0.0.1:8377 or unix:/run/ebb/api.sock "
                 "(also: environment EBB_URL)");
  app.add_option_function<std::string>(
         "-o,--output",
         [&session](const std::string& word) {
           session.format = word == "json"  ? Format::kJson
                            : word == "csv" ? Format::kCsv
                                            : Format::kTable;
         },
         "table (default), json or csv")
      ->check(CLI::IsMember({"table", "json", "csv"}));
  app.add_flag_callback(
      "--json", [&session] { session.format = Format::kJson; }, "as -o json");
  app.add_flag_callback(
      "--csv", [&session] { session.format = Format::kCsv; }, "as -o csv");
  app.add_flag_callback(
      "-H,--no-header", [&session] { session.header = false; }, "tables without titles");
  app.set_version_flag("--version", "ebb " EBB_VERSION);
}

// What to say when no subcommand fits; CLI11 only says that one is required.
std::string UnknownCommand(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view near = ebb::NearestWord(word, views);
  return near.empty() ? fmt::format("there is no command '{}'", word)
                      : fmt::format("there is no command '{}'; did you mean '{}'?", word, near);
}

// The program's one line about wrong arguments, from CLI11's exception.
std::string ArgumentFault(const CLI::App& app, const CLI::ParseError& error, int argc,
                          char** argv) {
  if (app.get_subcommands().empty()) {
    for (int i = 1; i < argc; ++i) {
      if (argv[i][0] != '-') return UnknownCommand(app, argv[i]);
    }
  }
  std::string text = error.what();
  if (const size_t newline = text.find('\n'); newline != text.npos) text.resize(newline);
  return text;
}

int Run(int argc, char** argv) {
  Session session;
  session.colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  CLI::App app("ebb tunes two-tier storage nodes and tells what it did.", "ebb");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
  AddGlobalOptions(app, session);
  ebb::cli::AddNodeStateCommands(app, session);
  ebb::cli::AddHistoryCommands(app, session);
  ebb::cli::AddHistoryVerify(app, session);
  ebb::cli::AddKnobCommands(app, session);
  ebb::cli::AddRecommendationCommands(app, session);
  ebb::cli::AddNodeCommands(app, session);
  ebb::cli::AddTraceCommands(app, session);
  ebb::cli::AddTwinCommands(app, session);
  if (argc == 1) {
    session.Print(app.help());
    return 0;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version: to stdout
    session.Note(fmt::format("ebb: {}; see 'ebb --help'", ArgumentFault(app, error, argc, argv)));
    return 2;
  }
  const absl::Status status = session.chosen(session);
  if (!status.ok()) session.Note(fmt::format("ebb: {}", std::string(status.message())));
  return ebb::cli::ExitCode(status);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebb: internal error: %s\n", error.what());
    return 1;
  }
}
