// Handlers of /api/v1/nodes and below, but for history and series.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "api/rest/node_problem.h"
#include "api/rest/routes.h"
#include "api/rest/words.h"
#include "base/nearest.h"
#include "fmt/format.h"

namespace ebb::rest {
namespace {

constexpr size_t kReasonBytesMax = 500;
constexpr size_t kSocketPathBytesMax = 107;  // what the kernel's sun_path holds

bool IsNodeId(std::string_view id) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !id.empty() && id.size() <= 64 && id.front() != '-' &&
         std::all_of(id.begin(), id.end(), fits);
}

Reply NodeReply(Call& call, const std::string& id, int status = 200) {
  auto node = call.api.service().Node(id);
  if (!node.ok()) return NodeProblem(call.api.service(), id, node.status());
  return JsonResponse(NodeJson(*node, call.api.Specs({id})), status);
}

Reply TunerReply(Call& call, const std::string& id) {
  auto node = call.api.service().Node(id);
  if (!node.ok()) return NodeProblem(call.api.service(), id, node.status());
  return JsonResponse(TunerJson(*node));
}

Reply KnobReply(Call& call, const std::string& id, const std::string& name) {
  auto knobs = call.api.service().Knobs(id);
  if (!knobs.ok()) return NodeProblem(call.api.service(), id, knobs.status());
  std::vector<std::string_view> names;
  for (const engine::KnobState& knob : *knobs) {
    if (knob.spec.name == name) return JsonResponse(KnobJson(knob));
    names.push_back(knob.spec.name);
  }
  const std::string_view near = NearestWord(name, names);
  return Problem{
      404,
      "not-found",
      near.empty()
          ? fmt::format("Node '{}' has no such knob; it has {}.", id, fmt::join(names, ", "))
          : fmt::format("Node '{}' has no such knob; did you mean '{}'?", id, near),
      {},
      {}};
}

constexpr std::array<std::string_view, 2> kLimitMembers = {"read_p99_us", "write_p99_us"};

// The goal of a body on top of the `present` one: limits that are not mentioned stay.
engine::Goal ReadGoal(BodyReader& body, const engine::Goal& present, Presence presence) {
  const auto names = GoalNames();
  std::array<std::string_view, engine::kComponentCount> components;
  for (size_t k = 0; k < components.size(); ++k) {
    components[k] = engine::ComponentWord(static_cast<engine::Component>(k));
  }
  const auto name = body.Word("goal", names, presence);
  const auto weights = body.Numbers("weights", components, Presence::kOptional);
  const auto limits = body.Numbers("limits", kLimitMembers, Presence::kOptional);
  engine::Goal goal = present;
  const bool custom = name && *name + 1 == names.size();
  if (name && !custom) {
    goal = static_cast<agents::GoalKind>(*name);
    goal.limits = present.limits;
  }
  if (custom && !body.Has("weights")) {
    body.AddFault("weights", "is missing: a custom goal says what each component weighs");
  } else if (custom && weights) {
    for (const auto& fault : ReadWeights(*weights, goal)) {
      body.AddFault("weights", fault.entry, fault.text);
    }
  } else if (weights && !weights->empty()) {
    body.AddFault("weights", "goes with \"goal\": \"custom\" only");
  }
  if (limits) {
    std::map<std::string, double> by_name;
    for (const auto& [member, limit_us] : *limits) {
      by_name[member.substr(0, member.size() - 3)] = limit_us;  // without "_us"
    }
    for (const auto& fault : ReadLimits(by_name, goal)) {
      body.AddFault("limits", fault.entry + "_us", fault.text);
    }
  }
  return goal;
}

// What the service found wrong with the socket is the client's to mend, not our failure.
Problem AttachProblem(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return ProblemFromStatus(status);
    default:
      return {422,
              "invalid-content",
              "The node could not be attached; see errors.",
              {{"/control_socket", {}, std::string(status.message()), {}, {}}},
              {}};
  }
}

}  // namespace

Reply GetNodes(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  const std::vector<engine::NodeStatus> nodes = call.api.service().Nodes();
  std::vector<std::string> ids;
  for (const auto& node : nodes) ids.push_back(node.id);
  const KnobSpecs specs = call.api.Specs(ids);
  std::vector<std::string> values;
  for (const auto& node : nodes) values.push_back(NodeJson(node, specs));
  return JsonResponse("{\"nodes\":" + ArrayJson(values) + "}");
}

Reply PostNode(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  const auto modes = ModeWords();
  BodyReader body(call.request.body);
  const engine::Goal goal = ReadGoal(body, engine::Goal(), Presence::kOptional);
  const auto socket = body.Text("control_socket", kSocketPathBytesMax, Presence::kRequired);
  const auto id = body.Text("id", 64, Presence::kOptional);
  const auto mode = body.Word("mode", modes, Presence::kOptional);
  if (socket && !socket->starts_with('/')) {
    body.AddFault("control_socket", "must be an absolute path");
  }
  if (socket && socket->find('\0') != std::string::npos) {
    body.AddFault("control_socket", "must not hold a zero byte");
  }
  if (id && !IsNodeId(*id)) {
    body.AddFault("id", "must be 1 to 64 of a-z, 0-9 and '-', and not begin with '-'");
  }
  if (auto problem = body.Finish()) return *problem;

  auto attached =
      call.api.service().Attach(*socket, id.value_or(""), goal,
                                mode ? static_cast<engine::Mode>(*mode) : engine::Mode::kAuto);
  if (!attached.ok()) return AttachProblem(attached.status());
  Reply reply = NodeReply(call, *attached, 201);
  if (auto* response = std::get_if<Response>(&reply)) {
    response->headers.emplace_back("Location", "/api/v1/nodes/" + *attached);
  }
  return reply;
}

Reply GetNode(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  return NodeReply(call, call.path[0]);
}

Reply DeleteNode(Call& call) {
  const bool restore = call.query.Bool("restore").value_or(false);
  if (auto problem = call.query.Finish()) return *problem;
  const absl::Status status = call.api.service().Detach(call.path[0], restore);
  if (!status.ok()) return NodeProblem(call.api.service(), call.path[0], status);
  return Response{204, "", "", {}};
}

Reply GetGoal(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  auto node = call.api.service().Node(call.path[0]);
  if (!node.ok()) return NodeProblem(call.api.service(), call.path[0], node.status());
  return JsonResponse(GoalJson(*node));
}

Reply PutGoal(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  const auto node = call.api.service().Node(call.path[0]);
  if (!node.ok()) return NodeProblem(call.api.service(), call.path[0], node.status());
  BodyReader body(call.request.body);
  const engine::Goal goal = ReadGoal(body, node->goal, Presence::kRequired);
  if (auto problem = body.Finish()) return *problem;
  const absl::Status status = call.api.service().SetGoal(call.path[0], goal, call.request.actor);
  if (!status.ok()) return NodeProblem(call.api.service(), call.path[0], status);
  return GetGoal(call);
}

Reply GetTuner(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  return TunerReply(call, call.path[0]);
}

Reply PatchTuner(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  const auto exits = OnExitWords();
  const auto modes = ModeWords();
  BodyReader body(call.request.body);
  const auto mode = body.Word("mode", modes, Presence::kOptional);
  const auto on_exit = body.Word("on_exit", exits, Presence::kOptional);
  const auto paused = body.Bool("paused", Presence::kOptional);
  const auto reason = body.Text("reason", kReasonBytesMax, Presence::kOptional);
  const auto until = body.Time("until", Presence::kOptional);
  const bool pauses = paused.value_or(false);
  if (reason && !pauses) body.AddFault("reason", "goes with \"paused\": true only");
  if (until && !pauses) body.AddFault("until", "goes with \"paused\": true only");
  if (until && *until <= call.api.clock().WallMs()) body.AddFault("until", "is in the past");
  if (!body.Has("mode") && !body.Has("paused") && !body.Has("on_exit")) {
    body.AddFault("", "must have at least one of mode, on_exit, paused");
  }
  if (auto problem = body.Finish()) return *problem;

  engine::TunerService& service = call.api.service();
  const std::string& id = call.path[0];
  absl::Status status;
  if (mode) status = service.SetMode(id, static_cast<engine::Mode>(*mode), call.request.actor);
  if (status.ok() && on_exit) {
    status = service.SetOnExit(id, static_cast<engine::OnExit>(*on_exit), call.request.actor);
  }
  if (status.ok() && paused) {
    status = *paused ? service.Pause(id, reason.value_or(""), until, call.request.actor)
                     : service.Resume(id, call.request.actor);
  }
  if (!status.ok()) return NodeProblem(service, id, status);
  return TunerReply(call, id);
}

Reply PostRestore(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  const absl::Status status = call.api.service().Restore(call.path[0], call.request.actor);
  if (!status.ok()) return NodeProblem(call.api.service(), call.path[0], status);
  return NodeReply(call, call.path[0]);
}

Reply GetKnobs(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  auto knobs = call.api.service().Knobs(call.path[0]);
  if (!knobs.ok()) return NodeProblem(call.api.service(), call.path[0], knobs.status());
  std::vector<std::string> values;
  for (const engine::KnobState& knob : *knobs) values.push_back(KnobJson(knob));
  return JsonResponse("{\"knobs\":" + ArrayJson(values) + "}");
}

Reply GetKnob(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  return KnobReply(call, call.path[0], call.path[1]);
}

Reply PatchKnob(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  BodyReader body(call.request.body);
  const auto pinned = body.Bool("pinned", Presence::kRequired);
  if (auto problem = body.Finish()) return *problem;
  Reply knob = KnobReply(call, call.path[0], call.path[1]);
  if (std::holds_alternative<Problem>(knob)) return knob;
  const absl::Status status =
      call.api.service().Pin(call.path[0], call.path[1], *pinned, call.request.actor);
  if (!status.ok()) return NodeProblem(call.api.service(), call.path[0], status);
  return KnobReply(call, call.path[0], call.path[1]);
}

}  // namespace ebb::rest
