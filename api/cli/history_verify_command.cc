#include "api/cli/history_verify_command.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "api/cli/history_export_command.h"
#include "base/status.h"
#include "engine/history/history.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::cli {
namespace {

struct VerifyOrder {
  std::string state_dir = "/var/lib/ebb";
  std::string noted_hash;
};

absl::Status Verify(Session& session, const VerifyOrder& order) {
  EBB_ASSIGN_OR_RETURN(const auto history,
                       engine::OpenHistoryForReading(order.state_dir + "/history"));
  EBB_ASSIGN_OR_RETURN(const engine::VerifyReport report, history->Verify(order.noted_hash));
  if (session.format == Format::kJson) {
    const nlohmann::ordered_json json = {
        {"events", report.events}, {"changes", report.changes}, {"head_hash", report.head_hash}};
    session.Print(json.dump(2) + "\n");
  } else {
    session.Print(fmt::format("{} events and {} changes, none altered, removed or moved\nhead {}\n",
                              report.events, report.changes, report.head_hash));
  }
  return absl::OkStatus();
}

}  // namespace

void AddHistoryVerify(CLI::App& app, Session& session) {
  auto order = std::make_shared<VerifyOrder>();
  CLI::App* history = app.add_subcommand("history", "the files of the history");
  history->require_subcommand(1);
  AddHistoryExport(*history, session);
  CLI::App* verify =
      history->add_subcommand("verify", "find any event that was altered, removed or moved");
  verify->footer(
      "Reads the files, also beside a running ebbd, and changes nothing. Each event carries the\n"
      "hash of all before it, so whoever rewrites one has to rewrite all later ones: note the "
      "head\n"
      "elsewhere now and then, and a later --noted HASH proves that nothing up to it was "
      "rewritten\n"
      "or cut off. Exit code 0: whole, 1: a fault, which is named.");
  verify->add_option("--state-dir", order->state_dir, "ebbd's folder")->capture_default_str();
  verify->add_option("--noted", order->noted_hash, "a head that this command printed before");
  verify->callback(
      [order, &session] { session.chosen = [order](Session& s) { return Verify(s, *order); }; });
}

}  // namespace ebb::cli
