#include "api/cli/history_export_command.h"

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "api/cli/when.h"
#include "base/status.h"
#include "engine/history/change_export.h"
#include "engine/history/history.h"

namespace ebb::cli {
namespace {

struct ExportOrder {
  std::string state_dir = "/var/lib/ebb";
  std::string format = "jsonl";
  std::string node;
  std::string from;
  std::string to;
  std::string outcome;
  engine::ChangeQuery query;
};

absl::Status Export(Session& session, const ExportOrder& order) {
  engine::ChangeQuery query = order.query;
  if (!order.from.empty()) {
    EBB_ASSIGN_OR_RETURN(query.from_ms, ParseWhen("--from", order.from));
  }
  if (!order.to.empty()) {
    EBB_ASSIGN_OR_RETURN(query.to_ms, ParseWhen("--to", order.to));
  }
  if (!order.outcome.empty()) query.verdict = engine::ParseVerdict(order.outcome);
  const bool csv = session.format == Format::kCsv || order.format == "csv";
  const auto format = csv ? engine::ExportFormat::kCsv : engine::ExportFormat::kJsonLines;
  EBB_ASSIGN_OR_RETURN(const auto history,
                       engine::OpenHistoryForReading(order.state_dir + "/history"));
  if (session.header) session.Print(engine::ExportHeader(format));
  EBB_RETURN_IF_ERROR(
      engine::ExportChanges(*history, order.node, query, format, [&](std::string_view line) {
        session.Print(line);
        return std::ferror(stdout) == 0;
      }));
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return absl::DataLossError("the export could not be written whole: the output took no more");
  }
  return absl::OkStatus();
}

}  // namespace

void AddHistoryExport(CLI::App& history, Session& session) {
  auto order = std::make_shared<ExportOrder>();
  CLI::App* command =
      history.add_subcommand("export", "changes as JSON lines or CSV, newest first");
  command->footer(
      "Reads the files, also beside a running ebbd, and changes nothing. Memory does not grow "
      "with\n"
      "the history. Knobs are the numbers that the node knows.\n"
      "Examples:\n"
      "  ebb history export --format csv --from 30d > changes.csv\n"
      "  ebb history export --node alpha --outcome revert | jq .reason");
  command->add_option("--state-dir", order->state_dir, "ebbd's folder")->capture_default_str();
  command->add_option("--format", order->format, "jsonl or csv")
      ->check(CLI::IsMember({"jsonl", "csv"}))
      ->capture_default_str();
  command->add_option("--node", order->node, "only this node's");
  command->add_option("--from", order->from, "proposed at or after: 1h (ago), a time, now");
  command->add_option("--to", order->to, "proposed before, likewise");
  command->add_option("--knob", order->query.knob, "that move this knob");
  command->add_option("--outcome", order->outcome, "keep, revert, inconclusive, void or pending")
      ->check(CLI::IsMember({"pending", "keep", "revert", "inconclusive", "void"}));
  command->add_option("--actor", order->query.actor, "by whom: agent, operator, operator:alice");
  command->add_option("--goal", order->query.goal, "made for this goal");
  command->add_option("--context", order->query.context, "made under this load, such as c3");
  command->callback(
      [order, &session] { session.chosen = [order](Session& s) { return Export(s, *order); }; });
}

}  // namespace ebb::cli
