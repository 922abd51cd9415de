// knobs, pin, unpin.
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

absl::Status Knobs(Session& session, const std::string& given, bool changed_only) {
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  EBB_ASSIGN_OR_RETURN(const std::string node, ResolveNode(*client, given));
  EBB_ASSIGN_OR_RETURN(const std::string body,
                       client->Call("GET", "/api/v1/nodes/" + Encode(node) + "/knobs"));
  EBB_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  Json knobs = Json::array();
  for (const Json& knob : json.value("knobs", Json::array())) {
    if (!changed_only || Text(knob, "value") != Text(knob, "default")) knobs.push_back(knob);
  }
  if (session.format == Format::kJson) {
    session.Print(knobs.dump(2) + "\n");
    return absl::OkStatus();
  }
  Table table({"KNOB", "VALUE", "DEFAULT", "BY", "PINNED", "OWNER", "TRADES"});
  for (const Json& knob : knobs) {
    const bool changed = Text(knob, "value") != Text(knob, "default");
    table.Add({Text(knob, "name"), Text(knob, "value_text"), Text(knob, "default_text"),
               Text(knob, "source"), Text(knob, "pinned") == "true" ? "pinned" : "",
               Text(knob, "owner"), Text(knob, "trades")},
              changed ? Tone::kGood : Tone::kPlain, 1);
  }
  table.Print(session);
  return absl::OkStatus();
}

absl::Status Pin(Session& session, const std::string& knob, const std::string& given, bool pinned) {
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  EBB_ASSIGN_OR_RETURN(const std::string node, ResolveNode(*client, given));
  const Json order = {{"pinned", pinned}};
  EBB_ASSIGN_OR_RETURN(
      const std::string body,
      client->Call("PATCH", "/api/v1/nodes/" + Encode(node) + "/knobs/" + Encode(knob),
                   order.dump()));
  EBB_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  if (session.format == Format::kJson) session.Print(json.dump(2) + "\n");
  session.Note(fmt::format("{} on {} {} {}", knob, node,
                           pinned ? "stays at" : "may be tuned again, now",
                           Text(json, "value_text")));
  return absl::OkStatus();
}

}  // namespace

void AddKnobCommands(CLI::App& app, Session& session) {
  CLI::App* knobs = app.add_subcommand("knobs", "every knob of a node: value, default, who set it");
  auto node = std::make_shared<std::string>();
  auto changed = std::make_shared<bool>(false);
  knobs->add_option("node", *node, "may be left out when one node is attached");
  knobs->add_flag("--changed", *changed, "only those that differ from the default");
  knobs->callback([&session, node, changed] {
    session.chosen = [=](Session& s) { return Knobs(s, *node, *changed); };
  });

  auto knob = std::make_shared<std::string>();
  const auto add = [&](const char* name, const char* help, bool pinned) {
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("knob", *knob, "as 'ebb knobs' lists it")->required();
    command->add_option("node", *node, "may be left out when one node is attached");
    command->callback([&session, knob, node, pinned] {
      session.chosen = [=](Session& s) { return Pin(s, *knob, *node, pinned); };
    });
  };
  add("pin", "keep a knob where it is: the tuner may not touch it", true);
  add("unpin", "let the tuner have a knob again", false);
}

}  // namespace ebb::cli
