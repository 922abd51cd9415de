#include "experiments/demo/sidecar.h"

#include <algorithm>
#include <cerrno>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/text_file.h"
#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::demo {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kCommandTimeoutMs = 20'000;
constexpr uint64_t kStartTimeoutNs = 20 * kNsPerS;

const Json& Member(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::string Text(const Json& object, const char* name) {
  const Json& value = Member(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

uint64_t Unsigned(const Json& object, const char* name) {
  const Json& value = Member(object, name);
  return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
}

double Percent(const Json& effect, const char* name) {
  const Json& value = Member(effect, name);
  return value.is_number() ? 100 * value.get<double>() : 0;
}

ChangeLine LineOf(const Json& change) {
  ChangeLine line;
  line.id = Text(change, "id");
  for (const Json& knob : Member(change, "knobs")) {
    line.knobs += fmt::format("{}{} {} -> {}", line.knobs.empty() ? "" : ", ", Text(knob, "knob"),
                              Text(knob, "from_text"), Text(knob, "to_text"));
  }
  line.actor = Text(change, "actor");
  line.reason = Text(change, "reason");
  line.outcome = Text(change, "outcome");
  line.outcome_reason = Text(change, "outcome_reason");
  const Json& measured = Member(change, "measured");
  line.effect = measured.is_object()
                    ? fmt::format("{:+.1f} % ({:+.1f} to {:+.1f})", Percent(measured, "mean"),
                                  Percent(measured, "low"), Percent(measured, "high"))
                    : "-";
  return line;
}

absl::StatusOr<Json> Parse(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InternalError("ebb printed no JSON");
  return json;
}

}  // namespace

absl::StatusOr<SidecarView> ParseView(const std::string& json) {
  EBB_ASSIGN_OR_RETURN(const Json root, Parse(json));
  const Json& node = root.is_array() && !root.empty() ? root[0] : root;
  if (!node.is_object()) return absl::InternalError("ebb status shows no node");
  SidecarView view;
  view.health = Text(node, "health");
  const Json& tuner = Member(node, "tuner");
  view.state = Text(tuner, "state");
  view.why = Text(tuner, "why");
  if (const Json& now = Member(Member(node, "index"), "now"); now.is_number()) {
    view.index_now = now.get<double>();
  }
  view.windows = Unsigned(node, "windows");
  view.void_windows = Unsigned(node, "void_windows");
  if (const Json& change = Member(node, "last_change"); change.is_object()) {
    const ChangeLine line = LineOf(change);
    view.last_change = fmt::format("#{} {}: {}", line.id, line.knobs, line.outcome);
  }
  return view;
}

absl::StatusOr<std::vector<ChangeLine>> ParseChanges(const std::string& json) {
  EBB_ASSIGN_OR_RETURN(const Json root, Parse(json));
  if (!root.is_array()) return absl::InternalError("ebb changes shows no list");
  std::vector<ChangeLine> lines;
  for (const Json& change : root) lines.push_back(LineOf(change));
  std::reverse(lines.begin(), lines.end());  // the daemon tells the newest first
  return lines;
}

absl::StatusOr<uint16_t> FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus(errno, "socket");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound = bind(fd, generic, bytes) == 0 && getsockname(fd, generic, &bytes) == 0;
  const int error_number = errno;
  close(fd);
  if (!bound) return ErrnoStatus(error_number, "find a free port");
  return ntohs(address.sin_port);
}

absl::StatusOr<std::unique_ptr<Sidecar>> Sidecar::Start(const Config& config) {
  EBB_ASSIGN_OR_RETURN(const uint16_t port, FreePort());
  const std::string listen = fmt::format("127.0.0.1:{}", port);
  const std::string config_path = config.scratch_dir + "/ebbd.toml";
  std::string text =
      fmt::format("listen = \"{}\"\nstate_dir = \"{}/ebbd\"\n", listen, config.scratch_dir);
  if (!config.agent.empty()) text += fmt::format("agent = \"{}\"\n", config.agent);
  EBB_RETURN_IF_ERROR(WriteTextFile(config_path, text));

  auto sidecar = std::unique_ptr<Sidecar>(new Sidecar(config, "http://" + listen));
  EBB_ASSIGN_OR_RETURN(
      sidecar->process_,
      experiments::ChildProcess::Start({config.bin_dir + "/ebbd", "--config", config_path},
                                       config.scratch_dir + "/ebbd.log", config.die_with_demo));
  Clock& clock = RealClock();
  const uint64_t deadline_ns = clock.MonotonicNs() + kStartTimeoutNs;
  while (true) {
    EBB_RETURN_IF_ERROR(sidecar->CheckAlive());
    const absl::StatusOr<std::string> answer = sidecar->Ebb({"--json", "status"});
    if (answer.ok()) return sidecar;
    if (clock.MonotonicNs() > deadline_ns) return Annotate(answer.status(), "ebbd is not ready");
    clock.SleepUntilNs(clock.MonotonicNs() + 100 * kNsPerMs);
  }
}

absl::StatusOr<std::string> Sidecar::Ebb(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {config_.bin_dir + "/ebb", "--url", url_});
  return experiments::RunAndRead(arguments, config_.scratch_dir, kCommandTimeoutMs);
}

absl::Status Sidecar::Attach(const std::string& control_socket, const std::string& goal) {
  EBB_ASSIGN_OR_RETURN(std::string name, Ebb({"attach", control_socket, "--goal", goal}));
  while (!name.empty() && name.back() == '\n') name.pop_back();
  node_ = std::move(name);
  return absl::OkStatus();
}

absl::StatusOr<SidecarView> Sidecar::View() {
  EBB_ASSIGN_OR_RETURN(const std::string json, Ebb({"--json", "status", node_}));
  return ParseView(json);
}

absl::StatusOr<std::vector<ChangeLine>> Sidecar::Changes() {
  EBB_ASSIGN_OR_RETURN(const std::string json, Ebb({"--json", "changes", "--limit", "500"}));
  return ParseChanges(json);
}

absl::Status Sidecar::Pause(const std::string& reason) {
  return Ebb({"pause", node_, "--reason", reason}).status();
}

absl::Status Sidecar::CheckAlive() {
  if (process_->IsRunning()) return absl::OkStatus();
  return absl::InternalError(fmt::format("ebbd ended: {}", process_->LogTail()));
}

}  // namespace ebb::demo
