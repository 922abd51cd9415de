#include "api/cli/views.h"

#include <vector>

#include "api/cli/table.h"
#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Dumped(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Tone ToneOf(const std::string& outcome) {
  if (outcome == "keep") return Tone::kGood;
  if (outcome == "revert") return Tone::kBad;
  return outcome == "pending" ? Tone::kPlain : Tone::kFaint;
}

std::string Micros(const Json& op, std::string_view member) {
  const double us = Number(op, member, -1);
  return us < 0 ? "-" : FormatDurationNs(static_cast<uint64_t>(us * 1000));
}

std::string Bytes(const Json& object, std::string_view member) {
  return FormatBytes(static_cast<uint64_t>(Number(object, member)));
}

std::string IndexText(const Json& node) {
  const Json index = Object(node, "index");
  const double now = Number(index, "now", -1);
  const double minute = Number(index, "minute_mean", -1);
  if (now < 0) return "not known yet";
  std::string text = fmt::format("{:.1f}", now);
  if (minute >= 0) text += fmt::format(", last minute {:.1f}", minute);
  return text + "  (100 = default setting under this load)";
}

std::string UpliftText(const Json& uplift) {
  const Json span = Object(uplift, "since_attach");
  const std::string effect = EffectText(Object(span, "effect"));
  if (effect.empty()) return Text(span, "missing");
  std::string text = fmt::format("{} over the default since attach", effect);
  const Json recent = Object(uplift, "recent");
  const std::string lately = EffectText(Object(recent, "effect"));
  if (!lately.empty()) text += fmt::format("; last {} h {}", Text(recent, "hours"), lately);
  text += fmt::format("; from {} blocks of holdback", Text(span, "blocks"));
  if (Number(span, "long_blocks") > 0) text += fmt::format(" ({} long)", Text(span, "long_blocks"));
  return text + fmt::format(": {} windows of the default, {} tuned", Text(span, "default_windows"),
                            Text(span, "tuned_windows"));
}

std::string ContextText(const Json& context) {
  const std::string id = Text(context, "id");
  if (id.empty()) return "not known yet: " + Text(context, "load");
  std::string text =
      fmt::format("{}, {}: {}", id, Text(context, "remembered") == "true" ? "seen before" : "new",
                  Text(context, "load"));
  const std::string best = EffectText(Object(context, "best_effect"));
  if (!best.empty()) {
    text += fmt::format("; best known setting: #{}, {}", Text(context, "best_change"), best);
  }
  return text;
}

std::string ModeText(const Json& tuner) {
  std::string text = fmt::format("{} by {}", Text(tuner, "mode"), Text(tuner, "agent"));
  if (Text(tuner, "paused") == "true") {
    const std::string until = TimeText(tuner, "paused_until");
    const std::string reason = Text(tuner, "pause_reason");
    text += fmt::format(", PAUSED{}{}", until.empty() ? "" : " until " + until,
                        reason.empty() ? "" : ": " + reason);
  }
  return text;
}

std::string LatencyText(const Json& latest, std::string_view kind) {
  const Json op = Object(latest, kind);
  if (Number(op, "ops") == 0) return fmt::format("{} none", kind);
  return fmt::format("{} {:.0f}/s p50 {} p99 {}", kind, Number(op, "iops"), Micros(op, "p50_us"),
                     Micros(op, "p99_us"));
}

void PrintNodePage(const Session& session, const Json& node) {
  const Json tuner = Object(node, "tuner");
  const Json latest = Object(node, "latest");
  const Json change = Object(node, "last_change");
  const std::string health = Text(node, "health");
  const bool well = health == "ok" && Text(node, "connected") == "true";
  std::string page;
  const auto add = [&](std::string_view title, const std::string& text) {
    page += fmt::format("{:<9} {}\n", title, text);
  };
  add("node", fmt::format("{}  {}", Text(node, "id"),
                          Toned(session, well ? "well" : health, well ? Tone::kGood : Tone::kBad)));
  add("store", fmt::format("{}, {}", Text(Object(node, "store"), "device_class"),
                           Text(Object(node, "store"), "description")));
  const std::string broken = Text(node, "limits_broken");
  add("goal", Text(node, "goal_text") +
                  (broken.empty() ? "" : Toned(session, "  BROKEN: " + broken, Tone::kBad)));
  add("tuner", ModeText(tuner));
  add("state", fmt::format("{}: {}", Text(tuner, "state"), Text(tuner, "why")));
  add("uplift", UpliftText(Object(node, "uplift")));
  add("context", ContextText(Object(node, "context")));
  add("index", IndexText(node));
  if (!latest.empty()) {
    const Json cache = Object(latest, "cache");
    const Json space = Object(latest, "space");
    add("requests",
        fmt::format("{};  {}", LatencyText(latest, "read"), LatencyText(latest, "write")));
    add("cache",
        fmt::format("{} of {} dirty ({:.0f} %), reads hit {:.0f} %", Bytes(cache, "dirty_bytes"),
                    Bytes(cache, "space_bytes"), 100 * Number(cache, "dirty_share"),
                    100 * Number(cache, "read_hit_share")));
    add("space", fmt::format("{} written, {} unique, {} on devices", Bytes(space, "logical_bytes"),
                             Bytes(space, "unique_bytes"), Bytes(space, "physical_bytes")));
  }
  add("change", change.empty() ? "none yet"
                               : fmt::format("#{} {}: {} {}", Text(change, "id"), MoveText(change),
                                             Toned(session, Text(change, "outcome"),
                                                   ToneOf(Text(change, "outcome"))),
                                             EffectText(Object(change, "measured"))));
  session.Print(page);
}

}  // namespace

absl::StatusOr<Json> ParseObject(const std::string& body) {
  Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::UnknownError("the daemon's answer is not a JSON object");
  return json;
}

std::string Text(const Json& object, std::string_view member) {
  if (!object.is_object()) return "";
  const auto found = object.find(std::string(member));
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : Dumped(*found, -1);
}

double Number(const Json& object, std::string_view member, double absent) {
  if (!object.is_object()) return absent;
  const auto found = object.find(std::string(member));
  return found != object.end() && found->is_number() ? found->get<double>() : absent;
}

Json Object(const Json& object, std::string_view member) {
  if (!object.is_object()) return Json::object();
  const auto found = object.find(std::string(member));
  return found != object.end() && found->is_object() ? *found : Json::object();
}

std::string TimeText(const Json& object, std::string_view member) {
  std::string text = Text(object, member);
  if (text.size() < 19) return text;
  text.resize(19);  // without the fraction and the Z
  text[10] = ' ';
  return text;
}

std::string EffectText(const Json& effect) {
  if (!effect.is_object() || effect.empty()) return "";
  return fmt::format("{:+.1f} % ({:+.1f} to {:+.1f})", 100 * Number(effect, "mean"),
                     100 * Number(effect, "low"), 100 * Number(effect, "high"));
}

std::string MoveText(const Json& change) {
  std::vector<std::string> moves;
  const auto knobs = change.find("knobs");
  if (knobs != change.end() && knobs->is_array()) {
    for (const Json& knob : *knobs) {
      moves.push_back(fmt::format("{} {} -> {}", Text(knob, "knob"), Text(knob, "from_text"),
                                  Text(knob, "to_text")));
    }
  }
  return moves.empty() ? "no knob" : fmt::format("{}", fmt::join(moves, ", "));
}

void PrintNodes(const Session& session, const Json& nodes) {
  if (session.format == Format::kJson) {
    session.Print(Dumped(nodes, 2) + "\n");
    return;
  }
  if (nodes.size() == 1 && session.format == Format::kTable) {
    PrintNodePage(session, nodes[0]);
    return;
  }
  if (nodes.empty() && session.format == Format::kTable) return;
  Table table({"NODE", "HEALTH", "GOAL", "MODE", "STATE", "INDEX", "WHY"});
  for (const Json& node : nodes) {
    const Json tuner = Object(node, "tuner");
    const double now = Number(Object(node, "index"), "now", -1);
    const bool paused = Text(tuner, "paused") == "true";
    table.Add({Text(node, "id"), Text(node, "health"), Text(node, "goal"),
               Text(tuner, "mode") + (paused ? " (paused)" : ""), Text(tuner, "state"),
               now < 0 ? "-" : fmt::format("{:.1f}", now), Text(tuner, "why")},
              Text(node, "health") == "ok" ? Tone::kGood : Tone::kBad, 1);
  }
  table.Print(session);
}

void PrintChanges(const Session& session, const Json& changes) {
  if (session.format == Format::kJson) {
    session.Print(Dumped(changes, 2) + "\n");
    return;
  }
  if (session.format == Format::kCsv) {
    Table table({"id", "node", "proposed_at", "applied_at", "decided_at", "actor", "goal", "knobs",
                 "reason", "predicted_mean", "measured_mean", "measured_low", "measured_high",
                 "smallest_detectable", "windows_used", "outcome", "outcome_reason", "context"});
    for (const Json& change : changes) {
      const Json measured = Object(change, "measured");
      table.Add({Text(change, "id"), Text(change, "node"), Text(change, "proposed_at"),
                 Text(change, "applied_at"), Text(change, "decided_at"), Text(change, "actor"),
                 Text(change, "goal"), MoveText(change), Text(change, "reason"),
                 Text(Object(change, "predicted"), "mean"), Text(measured, "mean"),
                 Text(measured, "low"), Text(measured, "high"), Text(change, "smallest_detectable"),
                 Text(change, "windows_used"), Text(change, "outcome"),
                 Text(change, "outcome_reason"), Text(change, "context")});
    }
    table.Print(session);
    return;
  }
  Table table({"ID", "TIME (UTC)", "NODE", "OUTCOME", "MEASURED", "BY", "CHANGE", "WHY"});
  for (const Json& change : changes) {
    const std::string outcome = Text(change, "outcome");
    const std::string why = Text(change, "outcome_reason");
    table.Add({Text(change, "id"), TimeText(change, "proposed_at"), Text(change, "node"), outcome,
               EffectText(Object(change, "measured")), Text(change, "actor"), MoveText(change),
               why.empty() ? Text(change, "reason") : why},
              ToneOf(outcome), 3);
  }
  table.Print(session);
}

void PrintChange(const Session& session, const Json& change) {
  if (session.format == Format::kJson) {
    session.Print(Dumped(change, 2) + "\n");
    return;
  }
  if (session.format == Format::kCsv) {
    PrintChanges(session, Json::array({change}));
    return;
  }
  std::string page;
  const auto add = [&](std::string_view title, const std::string& text) {
    if (!text.empty()) page += fmt::format("{:<11} {}\n", title, text);
  };
  const std::string outcome = Text(change, "outcome");
  add("change", "#" + Text(change, "id") + " on " + Text(change, "node"));
  add("knobs", MoveText(change));
  add("by", Text(change, "actor") + " for the goal " + Text(change, "goal"));
  add("context", Text(change, "context"));
  add("reason", Text(change, "reason"));
  add("predicted", EffectText(Object(change, "predicted")));
  add("measured", EffectText(Object(change, "measured")));
  const double detectable = Number(change, "smallest_detectable", -1);
  if (detectable > 0) {
    add("detectable", fmt::format("{:.1f} % or more with {} windows", 100 * detectable,
                                  Text(change, "windows_used")));
  }
  const std::string why = Text(change, "outcome_reason");
  add("outcome", Toned(session, outcome, ToneOf(outcome)) + (why.empty() ? "" : ": " + why));
  const auto steps = change.find("steps");
  if (steps != change.end() && steps->is_array()) {
    for (const Json& step : *steps) {
      add("", fmt::format("{}  {:<12} {}", TimeText(step, "at"), Text(step, "step"),
                          Text(step, "text")));
    }
  }
  session.Print(page);
}

}  // namespace ebb::cli
