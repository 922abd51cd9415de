#include "engine/daemon/daemon_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <sstream>
#include <system_error>
#include <utility>

#include <toml++/toml.h>

#include "agents/baseline/make_agent.h"
#include "api/rest/listen_address.h"
#include "api/rest/words.h"
#include "base/nearest.h"
#include "base/status.h"
#include "engine/tuner_service.h"
#include "fmt/format.h"

namespace ebb::engine {
namespace {

constexpr uint64_t kWindowNsMin = 100 * kNsPerMs;
constexpr uint64_t kWindowNsMax = 60 * kNsPerS;
constexpr std::array<std::string_view, 5> kLogLevels = {"debug", "info", "warning", "error", "off"};
constexpr int64_t kMsPerS = 1'000;
constexpr uint64_t kKeepNsMin = 3600 * kNsPerS;
constexpr double kHoldbackShareMax = 0.5;
constexpr std::array<std::string_view, 20> kKeys = {
    "agent",           "attach",   "goal",        "goal_limits",  "goal_weights", "holdback",
    "keep_10min",      "keep_10s", "keep_1min",   "keep_windows", "listen",       "log_level",
    "maintenance",     "mode",     "never_touch", "on_exit",      "quiet_hours",  "state_dir",
    "trials_per_hour", "window"};
constexpr int64_t kTrialsPerHourMax = 3600;

// Keys whose value is taken as it stands.
constexpr std::pair<std::string_view, std::string DaemonConfig::*> kTexts[] = {
    {"agent", &DaemonConfig::agent},        {"goal", &DaemonConfig::goal},
    {"listen", &DaemonConfig::listen},      {"mode", &DaemonConfig::mode},
    {"on_exit", &DaemonConfig::on_exit},    {"state_dir", &DaemonConfig::state_dir},
    {"log_level", &DaemonConfig::log_level}};

// How long the history keeps series, finest first.
constexpr std::pair<std::string_view, int64_t SeriesRetention::*> kKeeps[] = {
    {"keep_windows", &SeriesRetention::windows_ms},
    {"keep_10s", &SeriesRetention::ten_seconds_ms},
    {"keep_1min", &SeriesRetention::minutes_ms},
    {"keep_10min", &SeriesRetention::ten_minutes_ms}};

// Keys whose value is a list of texts, and what one of them is called.
struct ListKey {
  std::string_view key;
  std::vector<std::string> DaemonConfig::*member;
  std::string_view element;
};
constexpr ListKey kLists[] = {
    {"attach", &DaemonConfig::attach, "control socket"},
    {"quiet_hours", &DaemonConfig::quiet_hours, "span of hours"},
    {"maintenance", &DaemonConfig::maintenance, "span of hours"},
    {"never_touch", &DaemonConfig::never_touch, "knob"},
};

// Gathers faults of one file.
class FileFaults {
 public:
  explicit FileFaults(std::string name) : name_(std::move(name)) {}
  void Add(const toml::source_position& at, const std::string& text) {
    list_.push_back(fmt::format("{}:{}:{}: {}", name_, at.line, at.column, text));
  }
  void Add(const toml::node& node, const std::string& text) { Add(node.source().begin, text); }
  absl::Status status() const {
    if (list_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("{}", fmt::join(list_, "\n")));
  }

 private:
  std::string name_;
  std::vector<std::string> list_;
};

std::optional<std::string> TextOf(const toml::node& node, std::string_view key,
                                  FileFaults& faults) {
  std::optional<std::string> text = node.value_exact<std::string>();
  if (!text || text->empty()) {
    faults.Add(node, fmt::format("{} must be a text in quotes", key));
    return std::nullopt;
  }
  return text;
}

void ReadList(const ListKey& list, const toml::node& node, DaemonConfig& config,
              FileFaults& faults) {
  const toml::array* array = node.as_array();
  if (array == nullptr) {
    faults.Add(node, fmt::format("{} must be a list of texts in brackets", list.key));
    return;
  }
  (config.*list.member).clear();
  for (const toml::node& element : *array) {
    const auto text = TextOf(element, fmt::format("each {} of {}", list.element, list.key), faults);
    if (!text) continue;
    DaemonConfig only_this;
    only_this.*list.member = {*text};
    if (const absl::Status status = CheckConfig(only_this); !status.ok()) {
      faults.Add(element, std::string(status.message()));
    }
    (config.*list.member).push_back(*text);
  }
}

absl::StatusOr<int64_t> ParseKeepMs(std::string_view text) {
  EBB_ASSIGN_OR_RETURN(const uint64_t ns, ParseDurationNs(text));
  if (ns < kKeepNsMin) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' must be at least {}", text, FormatDurationNs(kKeepNsMin)));
  }
  return static_cast<int64_t>(ns / kNsPerS) * kMsPerS;
}

// A parsed value into its place, or its fault.
template <typename Value, typename Place>
void Put(const absl::StatusOr<Value>& value, std::string_view key, const toml::node& node,
         Place& place, FileFaults& faults) {
  if (value.ok()) {
    place = *value;
  } else {
    faults.Add(node, fmt::format("{}: {}", key, std::string(value.status().message())));
  }
}

// Tables whose faults are found together with the goal, by CheckConfig.
void ReadGoalTable(std::string_view key, const toml::node& node, DaemonConfig& config,
                   FileFaults& faults) {
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    faults.Add(node,
               key == "goal_weights"
                   ? "goal_weights must be a table such as { read_p99 = 0.6, write_p50 = 0.4 }"
                   : "goal_limits must be a table such as { read_p99 = \"2ms\" }");
    return;
  }
  for (const auto& [name, value] : *table) {
    if (key == "goal_limits") {
      const auto text = TextOf(value, fmt::format("goal_limits.{}", name.str()), faults);
      if (text) config.goal_limits[std::string(name.str())] = *text;
    } else if (const auto weight = value.value<double>()) {
      config.goal_weights[std::string(name.str())] = *weight;
    } else {
      faults.Add(value, fmt::format("goal_weights.{} must be a number", name.str()));
    }
  }
}

void ReadTrialsPerHour(const toml::node& node, DaemonConfig& config, FileFaults& faults) {
  DaemonConfig only_this;
  only_this.trials_per_hour = node.value_exact<int64_t>().value_or(0);
  if (const absl::Status status = CheckConfig(only_this); !status.ok()) {
    faults.Add(node, std::string(status.message()));
  }
  config.trials_per_hour = only_this.trials_per_hour;
}

void ReadKey(std::string_view key, const toml::node& node, DaemonConfig& config,
             FileFaults& faults) {
  for (const ListKey& list : kLists) {
    if (list.key == key) return ReadList(list, node, config, faults);
  }
  if (key == "goal_weights" || key == "goal_limits") {
    return ReadGoalTable(key, node, config, faults);
  }
  if (key == "trials_per_hour") return ReadTrialsPerHour(node, config, faults);
  const std::optional<std::string> text = TextOf(node, key, faults);
  if (!text) return;
  if (key == "holdback") {
    return Put(ParseHoldbackShare(*text), key, node, config.holdback_share, faults);
  }
  if (key == "window") return Put(ParseWindowNs(*text), key, node, config.window_ns, faults);
  for (const auto& [name, member] : kKeeps) {
    if (name == key) return Put(ParseKeepMs(*text), key, node, config.keep.*member, faults);
  }
  for (const auto& [name, member] : kTexts) {
    if (name != key) continue;
    DaemonConfig only_this;  // otherwise the defaults, which have no fault of their own
    only_this.*member = *text;
    // Its weights are judged when the whole file is read.
    const bool custom = key == "goal" && *text == "custom";
    if (const absl::Status status = CheckConfig(only_this); !custom && !status.ok()) {
      faults.Add(node, std::string(status.message()));
    }
    config.*member = *text;
  }
}

template <typename Words>
void CheckWord(std::string_view key, const std::string& value, const Words& words,
               std::vector<std::string>& faults) {
  std::vector<std::string_view> views(words.begin(), words.end());
  if (std::find(views.begin(), views.end(), value) != views.end()) return;
  const std::string_view near = NearestWord(value, views);
  faults.push_back(fmt::format("{}: '{}' must be one of {}{}", key, value, fmt::join(views, ", "),
                               near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

// The goal, and every fault of what says it.
Goal ReadGoal(const DaemonConfig& config, std::vector<std::string>& faults) {
  Goal goal = ParseGoal(config.goal).value_or(agents::GoalKind::kBalanced);
  const auto add = [&](std::string_view key, const GoalFault& fault) {
    faults.push_back(
        fmt::format("{}{}{}: {}", key, fault.entry.empty() ? "" : ".", fault.entry, fault.text));
  };
  if (config.goal == "custom") {
    for (const GoalFault& fault : ReadWeights(config.goal_weights, goal)) {
      add("goal_weights", fault);
    }
  } else if (!config.goal_weights.empty()) {
    faults.push_back("goal_weights: goes with goal = \"custom\" only");
  }
  std::map<std::string, double> limits_us;
  for (const auto& [name, text] : config.goal_limits) {
    const auto ns = ParseDurationNs(text);
    if (!ns.ok()) {
      add("goal_limits", {name, std::string(ns.status().message())});
    } else {
      limits_us[name] = static_cast<double>(*ns) / static_cast<double>(kNsPerUs);
    }
  }
  for (const GoalFault& fault : ReadLimits(limits_us, goal)) add("goal_limits", fault);
  return goal;
}

void CheckGoal(const DaemonConfig& config, std::vector<std::string>& faults) {
  CheckWord("goal", config.goal, rest::GoalNames(), faults);
  ReadGoal(config, faults);
}

void CheckSpans(std::string_view key, const std::vector<std::string>& spans,
                std::vector<std::string>& faults) {
  for (const std::string& text : spans) {
    const auto span = ParseWeeklySpan(text);
    if (!span.ok()) {
      faults.push_back(fmt::format("{}: {}", key, std::string(span.status().message())));
    }
  }
}

std::vector<WeeklySpan> SpansOf(const std::vector<std::string>& texts) {
  std::vector<WeeklySpan> spans;
  for (const std::string& text : texts) spans.push_back(ParseWeeklySpan(text).value());
  return spans;
}

// Weights and limits make sense only together with the goal; named where their table begins.
void AddGoalFaults(const toml::table& table, const DaemonConfig& config, FileFaults& faults) {
  const toml::node* node = table.get("goal_weights");
  if (node == nullptr) node = table.get("goal_limits");
  if (node == nullptr) node = table.get("goal");
  if (node == nullptr) return;
  std::vector<std::string> found;
  ReadGoal(config, found);
  for (const std::string& fault : found) faults.Add(*node, fault);
}

}  // namespace

absl::StatusOr<uint64_t> ParseWindowNs(std::string_view text) {
  EBB_ASSIGN_OR_RETURN(const uint64_t ns, ParseDurationNs(text));
  if (ns < kWindowNsMin || ns > kWindowNsMax) {
    return absl::InvalidArgumentError(fmt::format("'{}' must be from {} to {}", text,
                                                  FormatDurationNs(kWindowNsMin),
                                                  FormatDurationNs(kWindowNsMax)));
  }
  return ns;
}

absl::StatusOr<double> ParseHoldbackShare(std::string_view text) {
  std::string_view digits = text;
  const bool is_share = digits.ends_with('%');
  if (is_share) digits.remove_suffix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  const char* end = digits.data() + digits.size();
  double percent = 0;
  const auto [stop, fault] = std::from_chars(digits.data(), end, percent);
  if (!is_share || fault != std::errc() || stop != end || !(percent >= 0) ||
      percent > 100 * kHoldbackShareMax) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' must be a share from 0% to {:.0f}%", text, 100 * kHoldbackShareMax));
  }
  return percent / 100;
}

absl::Status ReadConfigText(std::string_view text, const std::string& name, DaemonConfig& config) {
  FileFaults faults(name);
  try {
    const toml::table table = toml::parse(text, name);
    for (const auto& [key, node] : table) {
      if (std::find(kKeys.begin(), kKeys.end(), key.str()) == kKeys.end()) {
        const std::string_view near = NearestWord(key.str(), kKeys);
        faults.Add(key.source().begin,
                   fmt::format("there is no key '{}'{}", key.str(),
                               near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
      } else {
        ReadKey(key.str(), node, config, faults);
      }
    }
    AddGoalFaults(table, config, faults);
  } catch (const toml::parse_error& error) {
    faults.Add(error.source().begin, std::string(error.description()));
  }
  return faults.status();
}

absl::Status ReadConfigFile(const std::string& path, DaemonConfig& config) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return ErrnoStatus(errno, fmt::format("configuration {}", path));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return absl::InternalError(fmt::format("configuration {}: cannot be read", path));
  return ReadConfigText(text, path, config);
}

absl::Status CheckConfig(const DaemonConfig& config) {
  std::vector<std::string> faults;
  const auto listen = rest::ParseListenAddress(config.listen);
  if (!listen.ok()) faults.push_back(std::string(listen.status().message()));
  if (config.state_dir.empty()) faults.push_back("state_dir: must name a folder");
  for (const std::string& socket : config.attach) {
    if (socket.empty()) faults.push_back("attach: an empty text is no control socket");
  }
  CheckWord("agent", config.agent, agents::AgentNames(), faults);
  CheckGoal(config, faults);
  CheckWord("mode", config.mode, rest::ModeWords(), faults);
  CheckWord("on_exit", config.on_exit, rest::OnExitWords(), faults);
  CheckWord("log_level", config.log_level, kLogLevels, faults);
  for (size_t i = 1; i < std::size(kKeeps); ++i) {
    const auto& [finer, finer_ms] = kKeeps[i - 1];
    const auto& [coarser, coarser_ms] = kKeeps[i];
    if (config.keep.*coarser_ms < config.keep.*finer_ms) {
      faults.push_back(fmt::format("{}: must be at least as long as {}", coarser, finer));
    }
  }
  for (const std::string& knob : config.never_touch) {
    if (knob.empty()) faults.push_back("never_touch: an empty text is no knob");
  }
  CheckSpans("quiet_hours", config.quiet_hours, faults);
  CheckSpans("maintenance", config.maintenance, faults);
  if (config.trials_per_hour < 1 || config.trials_per_hour > kTrialsPerHourMax) {
    faults.push_back(
        fmt::format("trials_per_hour: must be a whole number from 1 to {}", kTrialsPerHourMax));
  }
  if (faults.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}", fmt::join(faults, "\n")));
}

Goal GoalOf(const DaemonConfig& config) {
  std::vector<std::string> faults;
  return ReadGoal(config, faults);
}

void ApplyConfig(const DaemonConfig& config, LoopConfig& loop) {
  loop.schedule.quiet_hours = SpansOf(config.quiet_hours);
  loop.schedule.maintenance = SpansOf(config.maintenance);
  loop.envelope.never_touch = config.never_touch;
  if (config.holdback_share) loop.holdback_share = *config.holdback_share;
  loop.on_exit = ParseOnExit(config.on_exit).value();
  loop.envelope.trials_per_hour_max = static_cast<uint32_t>(config.trials_per_hour);
}

std::string ConfigText(const DaemonConfig& config) {
  const toml::table table{{"listen", config.listen},
                          {"state_dir", config.state_dir},
                          {"agent", config.agent},
                          {"goal", config.goal},
                          {"mode", config.mode},
                          {"window", fmt::format("{}ms", config.window_ns / kNsPerMs)},
                          {"log_level", config.log_level},
                          {"on_exit", config.on_exit},
                          {"trials_per_hour", config.trials_per_hour}};
  std::ostringstream text;
  toml::table whole = table;
  for (const auto& [key, member] : kKeeps) {
    whole.insert(key, fmt::format("{}s", config.keep.*member / kMsPerS));
  }
  toml::table weights;
  for (const auto& [name, weight] : config.goal_weights) weights.insert(name, weight);
  toml::table limits;
  for (const auto& [name, limit] : config.goal_limits) limits.insert(name, limit);
  if (!weights.empty()) whole.insert("goal_weights", weights);
  if (!limits.empty()) whole.insert("goal_limits", limits);
  for (const ListKey& list : kLists) {
    toml::array array;
    for (const std::string& element : config.*list.member) array.push_back(element);
    whole.insert(list.key, array);
  }
  if (config.holdback_share) {
    whole.insert("holdback", fmt::format("{:g}%", 100 * *config.holdback_share));
  }
  text << whole << "\n";
  return text.str();
}

}  // namespace ebb::engine
