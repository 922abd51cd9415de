#include "tests/env/node/fake_node.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/knob_json.h"

namespace ebb::env {
namespace {

using Json = nlohmann::json;
using storage::RpcReply;

constexpr size_t kClients = 8;
constexpr uint64_t kVolumeBytes = 64 * kMiB;
constexpr uint64_t kRequestBytes = 4096;

RpcReply FromStatus(const absl::Status& status) {
  int code = storage::kRpcInternal;
  if (status.code() == absl::StatusCode::kAborted) code = storage::kRpcStaleVersion;
  if (status.code() == absl::StatusCode::kNotFound) code = storage::kRpcNoSuchLease;
  if (status.code() == absl::StatusCode::kInvalidArgument) code = storage::kRpcBadParameters;
  return RpcReply::Error(code, std::string(status.message()));
}

RpcReply FromVersion(const absl::StatusOr<uint64_t>& version) {
  return version.ok() ? RpcReply::Result(Json{{"version", *version}}.dump())
                      : FromStatus(version.status());
}

}  // namespace

FakeNode::FakeNode(std::string folder, ManualClock& clock)
    : folder_(std::move(folder)), clock_(clock) {
  Start();
}

FakeNode::~FakeNode() { Stop(); }

void FakeNode::Start() {
  ++epoch_;
  started_ns_ = clock_.MonotonicNs();
  read_ = write_ = Op();
  clients_.clear();
  stream_ = std::make_unique<storage::StreamSampler>();
  const std::string state_dir = folder_ + "/state";
  std::filesystem::create_directories(state_dir);
  auto knobs = storage::KnobController::Open(
      {.state_dir = state_dir, .limits = {}, .initial = {}, .epoch = epoch_},
      [](const storage::Setting&) { return absl::OkStatus(); },
      [] { return storage::TripSample(); }, clock_);
  EBB_CHECK(knobs.ok());
  knobs_ = std::move(*knobs);
  auto server = storage::JsonRpcServer::Start({.socket_path = socket_path()}, Methods());
  EBB_CHECK(server.ok());
  server_ = std::move(*server);
}

void FakeNode::Stop() {
  server_.reset();
  knobs_.reset();
}

void FakeNode::Tick() { knobs_->Tick(); }

void FakeNode::Alter(const std::string& method, Alteration alteration) {
  const std::lock_guard lock(mutex_);
  if (alteration) {
    alterations_[method] = std::move(alteration);
  } else {
    alterations_.erase(method);
  }
}

void FakeNode::SetFromOutside(storage::KnobId knob, int64_t value) {
  EBB_CHECK(knobs_
                ->Set({.values = {{knob, value}},
                       .version = knobs_->version(),
                       .lease_ms = 0,
                       .trips = {},
                       .actor = "operator bob",
                       .reason = "by hand"})
                .ok());
}

storage::RpcMethod FakeNode::Wrapped(std::string name, storage::RpcMethod method) {
  return [this, name = std::move(name), method = std::move(method)](const std::string& params) {
    const std::lock_guard lock(mutex_);
    knobs_->Tick();
    RpcReply reply = method(params);
    if (const auto found = alterations_.find(name);
        reply.code == 0 && found != alterations_.end()) {
      reply.result_json = found->second(reply.result_json);
    }
    return reply;
  };
}

std::map<std::string, storage::RpcMethod, std::less<>> FakeNode::Methods() {
  std::map<std::string, storage::RpcMethod, std::less<>> methods;
  const auto add = [&](const std::string& name, storage::RpcMethod method) {
    methods[name] = Wrapped(name, std::move(method));
  };
  add("node.info", [this](const std::string&) { return Info(); });
  add("metrics.get", [this](const std::string&) { return Metrics(); });
  add("knobs.describe",
      [](const std::string&) { return RpcReply::Result(storage::KnobTableToJson({})); });
  add("knobs.get", [this](const std::string&) {
    return RpcReply::Result(storage::KnobStateToJson(knobs_->State()));
  });
  add("knobs.set", [this](const std::string& params) { return Set(params); });
  add("knobs.renew", [this](const std::string& params) {
    const Json json = Json::parse(params);
    const absl::Status status = knobs_->Renew(json.at("lease"), json.at("lease_ms"));
    return status.ok() ? RpcReply::Result(R"({"expires_in_ms": 1})") : FromStatus(status);
  });
  add("knobs.commit", [this](const std::string& params) {
    return FromVersion(knobs_->Commit(Json::parse(params).at("lease")));
  });
  add("knobs.revert", [this](const std::string& params) {
    const Json json = Json::parse(params);
    return FromVersion(knobs_->Revert(json.at("lease"), json.at("reason")));
  });
  add("events.get", [this](const std::string& params) {
    const Json json = Json::parse(params);
    return RpcReply::Result(
        storage::EventsToJson(knobs_->events().After(json.at("after"), json.at("max"))));
  });
  add("stream.get", [this](const std::string& params) { return Stream(params); });
  return methods;
}

RpcReply FakeNode::Info() const {
  return RpcReply::Result(Json{
      {"name", "fake"},
      {"uuid", "fake-uuid"},
      {"describe", "a scripted store"},
      {"device_class", "disk"},
      {"volume_bytes",
       kVolumeBytes}}.dump());
}

RpcReply FakeNode::Set(const std::string& params) {
  std::vector<std::string> faults;
  const storage::SetRequest request = storage::ParseSetRequest(params, faults);
  for (const std::string& fault : knobs_->Faults(request.values)) faults.push_back(fault);
  if (!faults.empty()) return RpcReply::Error(storage::kRpcBadParameters, faults.front());
  const absl::StatusOr<storage::SetResult> result = knobs_->Set(request);
  if (!result.ok()) return FromStatus(result.status());
  return RpcReply::Result(
      Json{{"version", result->version},
           {"lease", result->lease.empty() ? Json(nullptr) : Json(result->lease)}}
          .dump());
}

// Clients that wait for their answer and ask again at once.
void FakeNode::RunClientsUntil(uint64_t now_ns) {
  const auto start = [&](uint64_t at_ns) {
    const auto service_ns =
        1 + static_cast<uint64_t>(-std::log(1 - rng_.Uniform()) * service_ns_.load());
    in_flight_.Begin(at_ns);
    clients_.push_back({at_ns,
                        at_ns + service_ns,
                        {.time_ns = at_ns,
                         .op = rng_.Chance(0.5) ? 'R' : 'W',
                         .offset = rng_.Below(kVolumeBytes / kRequestBytes) * kRequestBytes,
                         .bytes = kRequestBytes,
                         .service_ns = static_cast<uint32_t>(service_ns)}});
  };
  if (clients_.empty()) {
    for (size_t i = 0; i < kClients; ++i) start(started_ns_);
  }
  while (true) {
    const auto first =
        std::min_element(clients_.begin(), clients_.end(),
                         [](const Running& a, const Running& b) { return a.end_ns < b.end_ns; });
    if (first->end_ns > now_ns) return;
    const Running done = *first;
    clients_.erase(first);
    in_flight_.End(done.end_ns);
    stream_->Record(done.record);
    Op& op = done.record.op == 'R' ? read_ : write_;
    ++op.ops;
    op.bytes += kRequestBytes;
    op.latency.Record(done.record.service_ns);
    start(done.end_ns);
  }
}

RpcReply FakeNode::Metrics() {
  const uint64_t now_ns = clock_.MonotonicNs();
  RunClientsUntil(now_ns);
  const auto op_json = [](const Op& op) {
    Json buckets = Json::array();
    for (const auto& [bucket, count] : op.latency.Sparse()) buckets.push_back({bucket, count});
    return Json{{"ops", op.ops},
                {"bytes", op.bytes},
                {"errors", 0},
                {"latency", {{"sum_ns", op.latency.sum_ns()}, {"buckets", std::move(buckets)}}}};
  };
  return RpcReply::Result(Json{{"wall_ms", clock_.WallMs()},
                               {"monotonic_ns", now_ns},
                               {"uptime_ns", now_ns - started_ns_},
                               {"node_epoch", epoch_},
                               {"setting_version", knobs_->version()},
                               {"ops",
                                {{"read", op_json(read_)},
                                 {"write", op_json(write_)},
                                 {"flush", op_json({})},
                                 {"trim", op_json({})}}},
                               {"counters",
                                {{"read_blocks_dram", 0},
                                 {"read_blocks_cache", read_.ops / 2},
                                 {"read_blocks_capacity", read_.ops - read_.ops / 2},
                                 {"destaged_blocks", write_.ops},
                                 {"throttle_ns", 0},
                                 {"busy_cpu_ns", 0},
                                 {"in_flight_ns_sum", in_flight_.IntegralNs(now_ns)}}},
                               {"gauges",
                                {{"cache_space_bytes", 1000},
                                 {"dirty_bytes", 400},
                                 {"clean_bytes", 100},
                                 {"free_bytes", 500},
                                 {"dirty_share", 0.5},
                                 {"draining", false},
                                 {"logical_bytes", 900},
                                 {"unique_bytes", 800},
                                 {"physical_bytes", 700}}}}
                              .dump());
}

RpcReply FakeNode::Stream(const std::string& params) {
  const Json json = Json::parse(params);
  const storage::StreamSampler::Slice slice = stream_->Get(json.at("after"), json.at("max"));
  Json records = Json::array();
  for (const storage::StreamRecord& record : slice.records) {
    records.push_back({record.time_ns, std::string(1, record.op), record.offset, record.bytes,
                       record.service_ns});
  }
  return RpcReply::Result(Json{
      {"records", std::move(records)},
      {"next", slice.next},
      {"dropped", slice.dropped},
      {"sample_rate",
       slice.sample_rate}}.dump());
}

}  // namespace ebb::env
