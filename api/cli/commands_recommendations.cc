// recommendations: listing, approve, reject.
#include <array>
#include <memory>

#include <CLI/CLI.hpp>

#include "api/cli/client.h"
#include "api/cli/session.h"
#include "api/cli/table.h"
#include "api/cli/views.h"
#include "base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPath = "/api/v1/recommendations";

std::string BoundsText(const Json& advice) {
  std::vector<std::string> bounds;
  for (const Json& knob : advice.value("knobs", Json::array())) {
    bounds.push_back(fmt::format("{} to {}", Text(knob, "low_text"), Text(knob, "high_text")));
  }
  return fmt::format("{}", fmt::join(bounds, ", "));
}

std::string WhyText(const Json& advice) {
  const std::string by = Text(advice, "decided_by");
  const std::string reason = Text(advice, "decision_reason");
  if (by.empty()) return Text(advice, "reason");
  return reason.empty() ? "by " + by : fmt::format("by {}: {}", by, reason);
}

absl::Status List(Session& session, const std::string& node, const std::string& state) {
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  std::string query;
  if (!node.empty()) query += "?node=" + Encode(node);
  if (!state.empty()) query += (query.empty() ? "?state=" : "&state=") + Encode(state);
  EBB_ASSIGN_OR_RETURN(const std::string body, client->Call("GET", std::string(kPath) + query));
  EBB_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  const Json all = json.value("recommendations", Json::array());
  if (session.format == Format::kJson) {
    session.Print(all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return absl::OkStatus();
  }
  Table table({"ID", "NODE", "STATE", "CHANGE", "BOUNDS", "EXPECTED", "EXPIRES (UTC)", "WHY"});
  for (const Json& advice : all) {
    const std::string word = Text(advice, "state");
    const std::string expected = EffectText(Object(advice, "expected"));
    table.Add({Text(advice, "id"), Text(advice, "node"), word, MoveText(advice), BoundsText(advice),
               expected.empty() ? "not predicted" : expected, TimeText(advice, "expires_at"),
               WhyText(advice)},
              word == "waiting" ? Tone::kGood : Tone::kPlain, 2);
  }
  table.Print(session);
  if (all.empty()) session.Note("nothing is recommended");
  return absl::OkStatus();
}

absl::Status Decide(Session& session, const std::string& id, const std::string& decision,
                    const std::string& reason) {
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  Json order = {{"decision", decision}};
  if (!reason.empty()) order["reason"] = reason;
  EBB_ASSIGN_OR_RETURN(const std::string body,
                       client->Call("POST", fmt::format("{}/{}/decision", kPath, Encode(id)),
                                    order.dump(-1, ' ', false, Json::error_handler_t::replace)));
  EBB_ASSIGN_OR_RETURN(const Json advice, ParseObject(body));
  if (session.format == Format::kJson) {
    session.Print(advice.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return absl::OkStatus();
  }
  session.Note(decision == "approve"
                   ? fmt::format("approved; its trial starts when the node is fit for one; watch "
                                 "it with: ebb show {}",
                                 Text(advice, "change"))
                   : fmt::format("rejected; {} will not be proposed again", MoveText(advice)));
  return absl::OkStatus();
}

}  // namespace

void AddRecommendationCommands(CLI::App& app, Session& session) {
  CLI::App* list =
      app.add_subcommand("recommendations", "what the tuner would try, waiting for your decision");
  list->footer(
      "In mode recommend nothing is ever applied; in mode approve an approval starts the guarded\n"
      "trial of exactly that change.\n"
      "Examples:\n"
      "  ebb recommendations                       what waits, and what was decided\n"
      "  ebb recommendations alpha --state waiting\n"
      "  ebb recommendations approve r12ab34cd56\n"
      "  ebb recommendations reject r12ab34cd56 --reason \"the host needs its memory\"");
  list->require_subcommand(0, 1);
  auto node = std::make_shared<std::string>();
  auto state = std::make_shared<std::string>();
  list->add_option("node", *node, "only this node's");
  list->add_option("--state", *state, "waiting, approved, tried, rejected, expired or withdrawn");
  list->callback([&session, list, node, state] {
    if (!list->get_subcommands().empty()) return;  // approve and reject have chosen already
    session.chosen = [=](Session& s) { return List(s, *node, *state); };
  });
  const auto add = [&](const char* decision, const char* help) {
    CLI::App* command = list->add_subcommand(decision, help);
    auto id = std::make_shared<std::string>();
    auto reason = std::make_shared<std::string>();
    command->add_option("id", *id, "as 'ebb recommendations' lists it")->required();
    command->add_option("--reason", *reason, "for the history");
    command->callback([&session, decision, id, reason] {
      session.chosen = [=](Session& s) { return Decide(s, *id, decision, *reason); };
    });
  };
  add("approve", "let its guarded trial start (mode approve only)");
  add("reject", "no: the same move is not proposed again");
}

}  // namespace ebb::cli
