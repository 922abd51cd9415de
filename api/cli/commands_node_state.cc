// attach, detach, status, goal, mode, pause, resume, restore.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "api/cli/client.h"
#include "api/cli/session.h"
#include "api/cli/table.h"
#include "api/cli/views.h"
#include "base/clock.h"
#include "base/nearest.h"
#include "base/status.h"
#include "base/time_text.h"
#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

// The daemon's words; tests/api/cli checks that they are the engine's.
constexpr std::array<std::string_view, 3> kGoals = {"read", "write", "balanced"};
constexpr std::array<std::string_view, 4> kGoalNames = {"read", "write", "balanced", "custom"};
constexpr std::array<std::string_view, 2> kExits = {"keep", "restore"};
constexpr std::array<std::string_view, 4> kModes = {"observe", "recommend", "approve", "auto"};

std::string NodePath(const std::string& node) { return "/api/v1/nodes/" + Encode(node); }

// One of a node's switches that is a word: `ebb goal` and `ebb mode` are the same command.
struct WordSwitch {
  std::string_view name;  // of the command and of the member
  std::span<const std::string_view> words;
  std::string_view method;
  std::string_view path;  // below the node
};
constexpr WordSwitch kGoalSwitch = {"goal", kGoalNames, "PUT", "/goal"};
constexpr WordSwitch kExitSwitch = {"on_exit", kExits, "PATCH", "/tuner"};
constexpr WordSwitch kModeSwitch = {"mode", kModes, "PATCH", "/tuner"};

struct WordOrder {
  std::string node;                 // empty: the only one
  std::optional<std::string> word;  // nothing: only show
};

// "[get|set] [NODE] [WORD]", where a lone word is the switch's or a node's name.
absl::StatusOr<WordOrder> ParseOrder(const WordSwitch& sw, std::vector<std::string> words) {
  const std::string allowed = fmt::format("{}", fmt::join(sw.words, ", "));
  std::string verb;
  if (!words.empty() && (words[0] == "get" || words[0] == "set")) {
    verb = words[0];
    words.erase(words.begin());
  }
  const auto known = [&](const std::string& word) {
    return std::find(sw.words.begin(), sw.words.end(), word) != sw.words.end();
  };
  if (words.size() > 2 || (verb == "get" && words.size() > 1) || (verb == "set" && words.empty())) {
    return absl::InvalidArgumentError(
        fmt::format("write 'ebb {0}', 'ebb {0} {1}' or 'ebb {0} NODE {1}'", sw.name, sw.words[0]));
  }
  if (words.empty()) return WordOrder{};
  if (verb == "get") return WordOrder{words[0], std::nullopt};
  if (words.size() == 1 && verb.empty() && !known(words[0])) {
    const std::string_view near = NearestWord(words[0], sw.words);
    if (near.empty()) return WordOrder{words[0], std::nullopt};  // then it is a node
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is no {}; did you mean '{}'? (to show a node of that name: ebb {} get {})", words[0],
        sw.name, near, sw.name, words[0]));
  }
  if (!known(words.back())) {
    const std::string_view near = NearestWord(words.back(), sw.words);
    return absl::InvalidArgumentError(
        fmt::format("'{}' is no {}: it must be one of {}{}", words.back(), sw.name, allowed,
                    near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
  }
  return WordOrder{words.size() == 2 ? words[0] : "", words.back()};
}

// What an answer says the switch is, for people.
std::string SwitchText(const WordSwitch& sw, const Json& json) {
  const std::string text = Text(json, "text");
  return text.empty() ? json.value(std::string(sw.name), "") : text;
}

absl::Status RunWordSwitch(Session& session, const WordSwitch& sw,
                           const std::vector<std::string>& words) {
  EBB_ASSIGN_OR_RETURN(const WordOrder order, ParseOrder(sw, words));
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  EBB_ASSIGN_OR_RETURN(const std::string node, ResolveNode(*client, order.node));
  const std::string target = NodePath(node) + std::string(sw.path);
  const Json wanted = {{std::string(sw.name), order.word.value_or("")}};
  EBB_ASSIGN_OR_RETURN(const std::string body,
                       order.word ? client->Call(std::string(sw.method), target, wanted.dump())
                                  : client->Call("GET", target));
  EBB_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  if (session.format == Format::kJson) {
    session.Print(json.dump(2) + "\n");
  } else {
    session.Print(SwitchText(sw, json) + "\n");
  }
  return absl::OkStatus();
}

struct GoalOptions {
  std::vector<std::string> words;
  std::vector<std::string> weights;  // "read_p99=0.6"
  std::vector<std::string> limits;   // "read_p99=2ms"
  bool no_limits = false;
};

// "name=value" pairs as an object; `parse` turns a value into its number.
absl::StatusOr<Json> ParsePairs(std::string_view option, const std::vector<std::string>& pairs,
                                std::string_view suffix,
                                absl::StatusOr<double> (*parse)(const std::string& text)) {
  Json object = Json::object();
  std::vector<std::string> faults;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == pair.npos) {
      faults.push_back(fmt::format("{}: '{}' must be NAME=VALUE", option, pair));
      continue;
    }
    const absl::StatusOr<double> number = parse(pair.substr(equals + 1));
    if (!number.ok()) {
      faults.push_back(
          fmt::format("{} {}: {}", option, pair, std::string(number.status().message())));
      continue;
    }
    object[fmt::format("{}{}", pair.substr(0, equals), suffix)] = *number;
  }
  if (!faults.empty())
    return absl::InvalidArgumentError(fmt::format("{}", fmt::join(faults, "; ")));
  return object;
}

absl::StatusOr<double> ParseWeight(const std::string& text) {
  char* end = nullptr;
  const double weight = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') {
    return absl::InvalidArgumentError(fmt::format("'{}' is no number such as 0.6", text));
  }
  return weight;
}

absl::StatusOr<double> ParseLimitUs(const std::string& text) {
  EBB_ASSIGN_OR_RETURN(const uint64_t ns, ParseDurationNs(text));
  return static_cast<double>(ns) / static_cast<double>(kNsPerUs);
}

absl::Status RunGoal(Session& session, const GoalOptions& options) {
  if (options.weights.empty() && options.limits.empty() && !options.no_limits) {
    return RunWordSwitch(session, kGoalSwitch, options.words);
  }
  if (options.no_limits && !options.limits.empty()) {
    return absl::InvalidArgumentError("--limit and --no-limits exclude each other");
  }
  EBB_ASSIGN_OR_RETURN(const WordOrder order, ParseOrder(kGoalSwitch, options.words));
  EBB_ASSIGN_OR_RETURN(const Json weights,
                       ParsePairs("--weight", options.weights, "", ParseWeight));
  EBB_ASSIGN_OR_RETURN(const Json limits,
                       ParsePairs("--limit", options.limits, "_us", ParseLimitUs));
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  EBB_ASSIGN_OR_RETURN(const std::string node, ResolveNode(*client, order.node));
  const std::string target = NodePath(node) + "/goal";
  Json wanted = {{"goal", "custom"}, {"weights", weights}};
  if (weights.empty()) {
    EBB_ASSIGN_OR_RETURN(const std::string present, client->Call("GET", target));
    EBB_ASSIGN_OR_RETURN(const Json json, ParseObject(present));
    wanted = {{"goal", order.word.value_or(Text(json, "goal"))}};
    if (wanted["goal"] == "custom") wanted["weights"] = json.value("weights", Json());
  } else if (order.word.value_or("custom") != "custom") {
    return absl::InvalidArgumentError(
        fmt::format("--weight makes a custom goal, not {}", *order.word));
  }
  if (options.no_limits || !limits.empty()) wanted["limits"] = limits;
  EBB_ASSIGN_OR_RETURN(const std::string body, client->Call("PUT", target, wanted.dump()));
  EBB_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  session.Print(session.format == Format::kJson ? json.dump(2) + "\n"
                                                : SwitchText(kGoalSwitch, json) + "\n");
  return absl::OkStatus();
}

void AddGoal(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("goal", "show or set what a node is tuned for");
  command->footer(
      "Examples:\n"
      "  ebb goal                             show it\n"
      "  ebb goal read                        tune the only node for reads\n"
      "  ebb goal alpha write                 tune node alpha for writes\n"
      "  ebb goal --limit read_p99=2ms        keep nothing with a read p99 above 2 ms\n"
      "  ebb goal custom --weight read_p99=0.6 --weight write_p50=0.4\n"
      "Components: read_p50, read_p99, read_throughput, write_p50, write_p99, write_throughput.\n"
      "Limits stay when the goal changes, until --limit or --no-limits.");
  auto options = std::make_shared<GoalOptions>();
  command->add_option("words", options->words, "[get|set] [NODE] [WORD]")->expected(0, 3);
  command->add_option("--weight", options->weights, "NAME=SHARE of a custom goal; they sum to 1")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--limit", options->limits, "read_p99=TIME or write_p99=TIME")
      ->take_all()
      ->allow_extra_args(false);
  command->add_flag("--no-limits", options->no_limits, "the goal has no hard limits any more");
  command->callback([&session, options] {
    session.chosen = [options](Session& s) { return RunGoal(s, *options); };
  });
}

void AddWordSwitch(CLI::App& app, Session& session, const WordSwitch& sw, const char* help,
                   const char* footer) {
  CLI::App* command = app.add_subcommand(std::string(sw.name), help);
  command->footer(footer);
  auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("words", *words, "[get|set] [NODE] [WORD]")->expected(0, 3);
  command->callback([&session, &sw, words] {
    session.chosen = [&sw, words](Session& s) { return RunWordSwitch(s, sw, *words); };
  });
}

struct AttachOptions {
  std::string socket;
  std::string id;
  std::string goal = "balanced";
  std::string mode = "auto";
};

absl::Status Attach(Session& session, const AttachOptions& options) {
  std::error_code error;
  const std::filesystem::path socket = std::filesystem::absolute(options.socket, error);
  if (error) return absl::UnknownError(options.socket + ": " + error.message());
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  Json order = {
      {"control_socket", socket.string()}, {"goal", options.goal}, {"mode", options.mode}};
  if (!options.id.empty()) order["id"] = options.id;
  EBB_ASSIGN_OR_RETURN(const std::string body,
                       client->Call("POST", "/api/v1/nodes",
                                    order.dump(-1, ' ', false, Json::error_handler_t::replace)));
  EBB_ASSIGN_OR_RETURN(const Json node, ParseObject(body));
  if (session.format == Format::kJson) {
    session.Print(node.dump(2) + "\n");
    return absl::OkStatus();
  }
  session.Print(node.value("id", "") + "\n");
  session.Note(fmt::format("attached; watch it with: ebb status {}", node.value("id", "")));
  return absl::OkStatus();
}

absl::Status Detach(Session& session, const std::string& given, bool restore) {
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  EBB_ASSIGN_OR_RETURN(const std::string node, ResolveNode(*client, given));
  EBB_RETURN_IF_ERROR(
      client->Call("DELETE", NodePath(node) + (restore ? "?restore=true" : "?restore=false"))
          .status());
  session.Note(fmt::format("detached {}; it keeps {}", node,
                           restore ? "the setting from before attach" : "its present setting"));
  return absl::OkStatus();
}

absl::Status Status(Session& session, const std::string& given) {
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  if (!given.empty()) {
    EBB_ASSIGN_OR_RETURN(const std::string body, client->Call("GET", NodePath(given)));
    EBB_ASSIGN_OR_RETURN(const Json node, ParseObject(body));
    PrintNodes(session, Json::array({node}));
    return absl::OkStatus();
  }
  EBB_ASSIGN_OR_RETURN(const std::string body, client->Call("GET", "/api/v1/nodes"));
  EBB_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  const Json nodes = json.value("nodes", Json::array());
  PrintNodes(session, nodes);
  if (nodes.empty()) session.Note("no node is attached; attach one with 'ebb attach SOCKET'");
  return absl::OkStatus();
}

absl::Status PatchTuner(Session& session, const std::string& given, const Json& order,
                        std::string_view done) {
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  EBB_ASSIGN_OR_RETURN(const std::string node, ResolveNode(*client, given));
  EBB_ASSIGN_OR_RETURN(const std::string body,
                       client->Call("PATCH", NodePath(node) + "/tuner",
                                    order.dump(-1, ' ', false, Json::error_handler_t::replace)));
  EBB_ASSIGN_OR_RETURN(const Json tuner, ParseObject(body));
  if (session.format == Format::kJson) {
    session.Print(tuner.dump(2) + "\n");
    return absl::OkStatus();
  }
  const std::string until = tuner.contains("paused_until") && tuner["paused_until"].is_string()
                                ? " until " + tuner["paused_until"].get<std::string>()
                                : "";
  session.Note(fmt::format("{} {}{}", node, done, until));
  return absl::OkStatus();
}

absl::Status Pause(Session& session, const std::string& node, const std::string& reason,
                   const std::string& duration) {
  Json order = {{"paused", true}};
  if (!reason.empty()) order["reason"] = reason;
  if (!duration.empty()) {
    const auto ns = ParseDurationNs(duration);
    if (!ns.ok())
      return absl::InvalidArgumentError(
          fmt::format("--for: {}", std::string(ns.status().message())));
    order["until"] = RealClock().WallMs() + static_cast<int64_t>(*ns / kNsPerMs);
  }
  return PatchTuner(session, node, order, "paused");
}

absl::Status Restore(Session& session, const std::string& given) {
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  EBB_ASSIGN_OR_RETURN(const std::string node, ResolveNode(*client, given));
  EBB_RETURN_IF_ERROR(client->Call("POST", NodePath(node) + "/restore").status());
  session.Note(fmt::format(
      "{} has the setting from before attach, and tuning is paused; go on with: ebb resume {}",
      node, node));
  return absl::OkStatus();
}

void AddAttachCommands(CLI::App& app, Session& session) {
  CLI::App* attach = app.add_subcommand("attach", "tune the node behind a control socket");
  attach->footer(
      "Examples:\n"
      "  ebb attach /run/ebb/alpha/control.sock\n"
      "  ebb attach ./control.sock --id alpha --goal write --mode observe");
  auto options = std::make_shared<AttachOptions>();
  attach->add_option("socket", options->socket, "the node's control socket")->required();
  attach->add_option("--id", options->id, "name for the node (a-z, 0-9, '-'); default: its own");
  attach->add_option("--goal", options->goal, "read, write or balanced (default)")
      ->check(CLI::IsMember(std::vector<std::string>(kGoals.begin(), kGoals.end())));
  attach
      ->add_option("--mode", options->mode,
                   "observe: only watch; recommend: only propose; approve: ask; auto (default)")
      ->check(CLI::IsMember(std::vector<std::string>(kModes.begin(), kModes.end())));
  attach->callback([&session, options] {
    session.chosen = [options](Session& s) { return Attach(s, *options); };
  });

  CLI::App* detach = app.add_subcommand("detach", "stop tuning a node; it keeps its setting");
  auto node = std::make_shared<std::string>();
  auto restore = std::make_shared<bool>(false);
  detach->add_option("node", *node, "may be left out when one node is attached");
  detach->add_flag("--restore", *restore, "put back the setting from before attach");
  detach->callback([&session, node, restore] {
    session.chosen = [node, restore](Session& s) { return Detach(s, *node, *restore); };
  });
}

void AddPauseCommands(CLI::App& app, Session& session) {
  auto node = std::make_shared<std::string>();
  const auto add = [&](const char* name, const char* help) {
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("node", *node, "may be left out when one node is attached");
    return command;
  };
  CLI::App* pause = add("pause", "leave the node as it is until resumed");
  pause->footer("Example:\n  ebb pause --for 1h --reason 'backup window'");
  auto reason = std::make_shared<std::string>();
  auto duration = std::make_shared<std::string>();
  pause->add_option("--reason", *reason, "one sentence for the history");
  pause->add_option("--for", *duration, "resume by itself after, e.g. 30min or 2h");
  pause->callback([&session, node, reason, duration] {
    session.chosen = [=](Session& s) { return Pause(s, *node, *reason, *duration); };
  });
  add("resume", "go on tuning")->callback([&session, node] {
    session.chosen = [node](Session& s) {
      return PatchTuner(s, *node, {{"paused", false}}, "is tuned again");
    };
  });
  add("restore", "the setting from before attach, at once; pauses tuning")
      ->callback(
          [&session, node] { session.chosen = [node](Session& s) { return Restore(s, *node); }; });
  CLI::App* status = add("status", "how a node is and what the tuner does; all nodes without NODE");
  status->callback(
      [&session, node] { session.chosen = [node](Session& s) { return Status(s, *node); }; });
}

}  // namespace

void AddNodeStateCommands(CLI::App& app, Session& session) {
  AddAttachCommands(app, session);
  AddPauseCommands(app, session);
  AddGoal(app, session);
  AddWordSwitch(app, session, kExitSwitch, "show or set what a node keeps when ebbd stops",
                "keep (default): what was kept of the tuning; restore: the setting from before\n"
                "attach. A daemon that is killed always leaves what was kept.\n"
                "Examples:\n"
                "  ebb on_exit\n"
                "  ebb on_exit alpha restore");
  AddWordSwitch(app, session, kModeSwitch, "show or set how far the tuner may go",
                "Modes: observe (watch), recommend (propose), approve (ask first), auto (act).\n"
                "Examples:\n"
                "  ebb mode\n"
                "  ebb mode alpha observe");
}

}  // namespace ebb::cli
