// The methods of PROTOCOL.md, one function each. Parameters arrive as the text of one JSON object.
#include <algorithm>
#include <limits>

#include <time.h>
#include <unistd.h>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/knob_json.h"
#include "storage-backend/control/metrics_json.h"
#include "storage-backend/control/metrics_text.h"
#include "storage-backend/control/node_server.h"
#include "storage-backend/control/params.h"

#ifndef EBB_VERSION
#error "the build defines EBB_VERSION"
#endif

namespace ebb::storage {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kNumberMax = std::numeric_limits<int64_t>::max();
constexpr uint64_t kEventsPerCallMax = 10'000;
constexpr uint64_t kRecordsPerCallMax = 10'000;
constexpr size_t kLeaseBytesMax = 64;
constexpr size_t kReasonBytesMax = 2000;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RpcReply BadParameters(const std::vector<std::string>& faults) {
  return RpcReply::Error(kRpcBadParameters, absl::StrJoin(faults, "; "),
                         Dump({{"faults", faults}}));
}

RpcReply ErrorOf(const absl::Status& status, uint64_t present_version) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kAborted:
      return RpcReply::Error(kRpcStaleVersion, message, Dump({{"version", present_version}}));
    case absl::StatusCode::kNotFound:
      return RpcReply::Error(kRpcNoSuchLease, message);
    case absl::StatusCode::kInvalidArgument:
      return RpcReply::Error(kRpcBadParameters, message, Dump({{"faults", {message}}}));
    case absl::StatusCode::kFailedPrecondition:
      return RpcReply::Error(kRpcRefused, message);
    default:
      return RpcReply::Error(kRpcInternal, message);
  }
}

RpcReply VersionReply(const absl::StatusOr<uint64_t>& version, uint64_t present_version) {
  if (!version.ok()) return ErrorOf(version.status(), present_version);
  return RpcReply::Result(Dump({{"version", *version}}));
}

uint64_t ProcessCpuNs() {
  timespec used{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0) return 0;
  return static_cast<uint64_t>(used.tv_sec) * kNsPerS + static_cast<uint64_t>(used.tv_nsec);
}

// A method without parameters.
template <typename Method>
RpcMethod Plain(Method method) {
  return [method](const std::string& text) {
    const Json json = Json::parse(text);
    std::vector<std::string> faults;
    Params(json, "", faults).RefuseOthers();
    return faults.empty() ? method() : BadParameters(faults);
  };
}

}  // namespace

std::map<std::string, RpcMethod, std::less<>> NodeServer::Methods() {
  std::map<std::string, RpcMethod, std::less<>> methods;
  methods["node.info"] = Plain([this] { return NodeInfo(); });
  methods["metrics.get"] = Plain([this] { return MetricsGet(); });
  methods["metrics.text"] = Plain([this] { return MetricsText(); });
  methods["knobs.describe"] = Plain([this] { return RpcReply::Result(KnobTableToJson(limits_)); });
  methods["knobs.get"] =
      Plain([this] { return RpcReply::Result(KnobStateToJson(knobs_->State())); });
  methods["knobs.set"] = [this](const std::string& params) { return KnobsSet(params); };
  methods["knobs.renew"] = [this](const std::string& params) { return KnobsRenew(params); };
  methods["knobs.commit"] = [this](const std::string& params) { return KnobsCommit(params); };
  methods["knobs.revert"] = [this](const std::string& params) { return KnobsRevert(params); };
  methods["events.get"] = [this](const std::string& params) { return EventsGet(params); };
  methods["stream.get"] = [this](const std::string& params) { return StreamGet(params); };
  methods["node.drain"] = [this](const std::string& params) { return NodeDrain(params); };
  methods["node.stop"] = Plain([this] { return NodeStop(); });
  return methods;
}

RpcReply NodeServer::NodeInfo() {
  Json devices = Json::array();
  for (const DeviceView& view : devices_) {
    const absl::StatusOr<uint64_t> allocated = view.device->AllocatedBytes();
    Json overruns = nullptr;
    if (view.shaped != nullptr) {
      const ShapedDevice::OverrunCounts counts = view.shaped->Overruns();
      overruns = {
          {"transfers", counts.transfers}, {"late", counts.late}, {"late_ns", counts.late_ns}};
    }
    devices.push_back({{"role", view.role},
                       {"describe", view.device->Describe()},
                       {"size_bytes", view.device->size_bytes()},
                       {"allocated_bytes", allocated.ok() ? Json(*allocated) : Json(nullptr)},
                       {"shape", view.shaped ? Json(view.shaped->options().model) : Json(nullptr)},
                       {"shape_scale", view.shaped ? view.shaped->options().scale : 1.0},
                       {"overruns", std::move(overruns)}});
  }
  bool shaped = false;
  for (const GroupConfig& group : config_.groups) {
    shaped = shaped || !group.cache.shape.empty();
    for (const DeviceConfig& device : group.capacity) shaped = shaped || !device.shape.empty();
  }
  return RpcReply::Result(Dump({{"name", config_.name},
                                {"uuid", volume_->uuid()},
                                {"pid", getpid()},
                                {"started_wall_ms", started_wall_ms_},
                                {"node_epoch", epoch_},
                                {"build", EBB_VERSION},
                                {"volume_bytes", volume_->volume_bytes()},
                                {"describe", volume_->Describe()},
                                {"shaped", shaped},
                                {"devices", std::move(devices)},
                                {"host_memory_bytes", limits_.host_memory_bytes},
                                {"device_class", config_.device_class},
                                {"groups", config_.groups.size()},
                                {"threads", config_.nbd.threads},
                                {"nbd_uri", NbdUri(config_.nbd)}}));
}

MetricsFrame NodeServer::Frame() {
  MetricsFrame frame;
  frame.wall_ms = clock_.WallMs();
  frame.monotonic_ns = clock_.MonotonicNs();
  frame.uptime_ns = frame.monotonic_ns - started_ns_;
  frame.node_epoch = epoch_;
  frame.setting_version = knobs_->version();
  frame.in_flight_ns_sum = in_flight_.IntegralNs(frame.monotonic_ns);
  frame.in_flight = in_flight_.in_flight();
  frame.busy_cpu_ns = ProcessCpuNs();
  return frame;
}

RpcReply NodeServer::MetricsGet() {
  const MetricsFrame frame = Frame();
  return RpcReply::Result(MetricsToJson(frame, volume_->Metrics()));
}

RpcReply NodeServer::MetricsText() {
  const MetricsFrame frame = Frame();
  const VolumeMetrics metrics = volume_->Metrics();
  return RpcReply::Result(Dump({{"text", MetricsToText({.name = config_.name,
                                                        .uuid = volume_->uuid(),
                                                        .version = EBB_VERSION,
                                                        .device_class = config_.device_class},
                                                       frame, metrics, volume_->CurrentSetting(),
                                                       drain_->EtaSeconds(metrics.dirty_bytes))}}));
}

RpcReply NodeServer::KnobsSet(const std::string& params) {
  std::vector<std::string> faults;
  const SetRequest request = ParseSetRequest(params, faults);
  for (std::string& fault : knobs_->Faults(request.values)) faults.push_back(std::move(fault));
  if (!faults.empty()) return BadParameters(faults);
  const absl::StatusOr<SetResult> result = knobs_->Set(request);
  if (!result.ok()) return ErrorOf(result.status(), knobs_->version());
  return RpcReply::Result(
      Dump({{"version", result->version},
            {"lease", result->lease.empty() ? Json(nullptr) : Json(result->lease)}}));
}

RpcReply NodeServer::KnobsRenew(const std::string& text) {
  std::vector<std::string> faults;
  const Json json = Json::parse(text);
  Params params(json, "", faults);
  const std::string lease = params.RequiredText("lease", kLeaseBytesMax);
  const uint64_t lease_ms = params.RequiredUnsigned("lease_ms", kLeaseMsMin, kLeaseMsMax);
  params.RefuseOthers();
  if (!faults.empty()) return BadParameters(faults);
  const absl::Status status = knobs_->Renew(lease, lease_ms);
  if (!status.ok()) return ErrorOf(status, knobs_->version());
  return RpcReply::Result(Dump({{"expires_in_ms", lease_ms}}));
}

RpcReply NodeServer::KnobsCommit(const std::string& text) {
  std::vector<std::string> faults;
  const Json json = Json::parse(text);
  Params params(json, "", faults);
  const std::string lease = params.RequiredText("lease", kLeaseBytesMax);
  params.RefuseOthers();
  if (!faults.empty()) return BadParameters(faults);
  return VersionReply(knobs_->Commit(lease), knobs_->version());
}

RpcReply NodeServer::KnobsRevert(const std::string& text) {
  std::vector<std::string> faults;
  const Json json = Json::parse(text);
  Params params(json, "", faults);
  const std::string lease = params.RequiredText("lease", kLeaseBytesMax);
  const std::string reason = params.OptionalText("reason", kReasonBytesMax).value_or("");
  params.RefuseOthers();
  if (!faults.empty()) return BadParameters(faults);
  return VersionReply(knobs_->Revert(lease, reason), knobs_->version());
}

RpcReply NodeServer::EventsGet(const std::string& text) {
  std::vector<std::string> faults;
  const Json json = Json::parse(text);
  Params params(json, "", faults);
  const uint64_t after = params.OptionalUnsigned("after", 0, kNumberMax).value_or(0);
  const uint64_t max = params.OptionalUnsigned("max", 1, kEventsPerCallMax).value_or(1000);
  params.RefuseOthers();
  if (!faults.empty()) return BadParameters(faults);
  return RpcReply::Result(EventsToJson(knobs_->events().After(after, max)));
}

RpcReply NodeServer::StreamGet(const std::string& text) {
  std::vector<std::string> faults;
  const Json json = Json::parse(text);
  Params params(json, "", faults);
  const uint64_t after = params.OptionalUnsigned("after", 0, kNumberMax).value_or(0);
  const uint64_t max =
      params.OptionalUnsigned("max", 1, kRecordsPerCallMax).value_or(kRecordsPerCallMax);
  params.RefuseOthers();
  if (!faults.empty()) return BadParameters(faults);
  const StreamSampler::Slice slice = sampler_.Get(after, max);
  // By hand: ten thousand rows through a JSON tree are ten times the work.
  std::string rows;
  for (const StreamRecord& record : slice.records) {
    rows += fmt::format(R"({}[{},"{}",{},{},{})", rows.empty() ? "" : ",", record.time_ns,
                        record.op, record.offset, record.bytes, record.service_ns);
    if (record.has_content) {
      // 53 bits: JSON readers keep them all.
      constexpr int kDroppedBits = 11;
      rows +=
          fmt::format(",{},{}", record.fingerprint >> kDroppedBits, record.compressed_per_mille);
    }
    rows += ']';
  }
  return RpcReply::Result(
      fmt::format(R"({{"records":[{}],"next":{},"dropped":{},"sample_rate":{}}})", rows, slice.next,
                  slice.dropped, slice.sample_rate));
}

RpcReply NodeServer::NodeDrain(const std::string& text) {
  std::vector<std::string> faults;
  const Json json = Json::parse(text);
  Params params(json, "", faults);
  const std::optional<bool> start = params.OptionalBool("start");
  params.RefuseOthers();
  if (!faults.empty()) return BadParameters(faults);
  if (start && *start) drain_->Start();
  if (start && !*start) drain_->RequestCancel();
  const uint64_t dirty_bytes = volume_->Metrics().dirty_bytes;
  const std::optional<double> eta_s = drain_->EtaSeconds(dirty_bytes);
  return RpcReply::Result(Dump({{"dirty_bytes", dirty_bytes},
                                {"draining", drain_->running()},
                                {"eta_s", eta_s ? Json(*eta_s) : Json(nullptr)}}));
}

RpcReply NodeServer::NodeStop() {
  if (!options_.on_stop) {
    return RpcReply::Error(kRpcRefused, "this node belongs to a program that stops it by itself");
  }
  options_.on_stop();
  return RpcReply::Result("{}");
}

}  // namespace ebb::storage
