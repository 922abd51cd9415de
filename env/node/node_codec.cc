#include "env/node/node_codec.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::env {
namespace {

using Json = nlohmann::json;

// PROTOCOL.md's limits for what a caller may say.
constexpr size_t kActorBytesMax = 200;
constexpr size_t kReasonBytesMax = 2000;

// Reads the fields of one JSON object and keeps the first fault.
class Fields {
 public:
  Fields(const Json& object, std::string where, absl::Status& fault)
      : object_(object), where_(std::move(where)), fault_(fault) {
    if (!object_.is_object()) Fail("", "is no object");
  }

  // nullptr, and a fault, when it is missing.
  const Json* Find(const char* name) {
    const auto found = object_.is_object() ? object_.find(name) : object_.end();
    if (!object_.is_object() || found == object_.end()) {
      Fail(name, "is missing");
      return nullptr;
    }
    return &*found;
  }
  uint64_t Unsigned(const char* name) {
    const Json* value = Find(name);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned()) {
      Fail(name, "is no whole number from 0 on");
      return 0;
    }
    return value->get<uint64_t>();
  }
  int64_t Integer(const char* name) {
    const Json* value = Find(name);
    if (value == nullptr) return 0;
    if (!value->is_number_integer()) {
      Fail(name, "is no whole number");
      return 0;
    }
    return value->get<int64_t>();
  }
  double Real(const char* name) {
    const Json* value = Find(name);
    if (value == nullptr) return 0;
    if (!value->is_number()) {
      Fail(name, "is no number");
      return 0;
    }
    return value->get<double>();
  }
  bool Bool(const char* name) {
    const Json* value = Find(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) {
      Fail(name, "is neither true nor false");
      return false;
    }
    return value->get<bool>();
  }
  // null reads as empty.
  std::string Text(const char* name) {
    const Json* value = Find(name);
    if (value == nullptr || value->is_null()) return "";
    if (!value->is_string()) {
      Fail(name, "is no text");
      return "";
    }
    return value->get<std::string>();
  }
  const Json& Array(const char* name) {
    static const Json empty = Json::array();
    const Json* value = Find(name);
    if (value == nullptr) return empty;
    if (!value->is_array()) {
      Fail(name, "is no list");
      return empty;
    }
    return *value;
  }
  const Json& Object(const char* name) {
    static const Json empty = Json::object();
    const Json* value = Find(name);
    if (value == nullptr) return empty;
    if (!value->is_object()) {
      Fail(name, "is no object");
      return empty;
    }
    return *value;
  }
  void Fail(std::string_view name, std::string_view what) {
    if (!fault_.ok()) return;
    const char* dot = where_.empty() || name.empty() ? "" : ".";
    fault_ = absl::InvalidArgumentError(
        fmt::format("the node's answer does not fit: {}{}{} {}", where_, dot, name, what));
  }

 private:
  const Json& object_;
  const std::string where_;
  absl::Status& fault_;
};

absl::StatusOr<Json> Parse(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("the node's answer is no JSON");
  return json;
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<KnobKind> KindFromWord(const std::string& word) {
  constexpr std::array<std::pair<std::string_view, KnobKind>, 5> kWords = {
      {{"integer", KnobKind::kInteger},
       {"bytes", KnobKind::kBytes},
       {"percent", KnobKind::kPercent},
       {"microseconds", KnobKind::kMicroseconds},
       {"choice", KnobKind::kChoice}}};
  for (const auto& [name, kind] : kWords) {
    if (name == word) return kind;
  }
  return std::nullopt;
}

std::optional<NodeEvent::Kind> EventKindFromWord(const std::string& word) {
  constexpr std::array<std::pair<std::string_view, NodeEvent::Kind>, 13> kWords = {
      {{"started", NodeEvent::Kind::kStarted},
       {"applied", NodeEvent::Kind::kApplied},
       {"committed", NodeEvent::Kind::kCommitted},
       {"reverted", NodeEvent::Kind::kReverted},
       {"lease_expired", NodeEvent::Kind::kLeaseExpired},
       {"tripped", NodeEvent::Kind::kTripped},
       {"foreign_change", NodeEvent::Kind::kForeignChange},
       {"drain", NodeEvent::Kind::kDrain},
       {"error", NodeEvent::Kind::kError},
       {"damage", NodeEvent::Kind::kDamage},
       {"stuck", NodeEvent::Kind::kStuck},
       {"recovered", NodeEvent::Kind::kRecovered},
       {"device", NodeEvent::Kind::kDevice}}};
  for (const auto& [name, kind] : kWords) {
    if (name == word) return kind;
  }
  return std::nullopt;
}

// A knob's value on the wire: a choice's word, or a whole number.
int64_t KnobValue(const KnobSpec& spec, const char* field, Fields& fields) {
  if (spec.kind != KnobKind::kChoice) return fields.Integer(field);
  const std::string word = fields.Text(field);
  for (size_t i = 0; i < spec.choices.size(); ++i) {
    if (spec.choices[i] == word) return static_cast<int64_t>(i);
  }
  fields.Fail(field, fmt::format("\"{}\" is none of its choices", word));
  return 0;
}

KnobSpec DecodeKnob(const Json& json, size_t position, absl::Status& fault) {
  Fields fields(json, fmt::format("knobs[{}]", position), fault);
  KnobSpec spec;
  spec.name = fields.Text("name");
  const std::optional<KnobKind> kind = KindFromWord(fields.Text("kind"));
  if (!kind) fields.Fail("kind", "is unknown");
  spec.kind = kind.value_or(KnobKind::kInteger);
  for (const Json& word : fields.Array("choices")) {
    if (!word.is_string()) {
      fields.Fail("choices", "are not all words");
      break;
    }
    spec.choices.push_back(word.get<std::string>());
  }
  spec.min = fields.Integer("min");
  spec.max = fields.Integer("max");
  spec.step = fields.Integer("step");
  spec.log_scale = fields.Bool("log_scale");
  spec.default_value = KnobValue(spec, "default", fields);
  spec.settle_seconds = static_cast<int>(fields.Unsigned("settle_seconds"));
  spec.agent_owned = fields.Text("owner") == "agent";
  spec.coupled_with = fields.Text("coupled_with");
  spec.trades = fields.Text("trades");
  const bool choices_fit =
      spec.kind != KnobKind::kChoice ||
      (spec.min == 0 && spec.max + 1 == static_cast<int64_t>(spec.choices.size()));
  if (fault.ok() && (spec.step <= 0 || spec.max < spec.min || !choices_fit)) {
    fields.Fail("", "has an impossible range");
  }
  return spec;
}

Setting DecodeSetting(const KnobSpace& space, const Json& json, const char* where,
                      absl::Status& fault) {
  Fields fields(json, where, fault);
  Setting setting;
  for (const KnobSpec& spec : space.knobs()) {
    setting.values.push_back(KnobValue(spec, spec.name.c_str(), fields));
  }
  return setting;
}

void DecodeOp(const Json& ops, const char* name, OpTotals& totals, absl::Status& fault) {
  Fields parent(ops, "ops", fault);
  const Json* json = parent.Find(name);
  if (json == nullptr) return;
  Fields fields(*json, fmt::format("ops.{}", name), fault);
  totals.ops = fields.Unsigned("ops");
  totals.bytes = fields.Unsigned("bytes");
  totals.errors = fields.Unsigned("errors");
  Fields latency(fields.Object("latency"), fmt::format("ops.{}.latency", name), fault);
  const uint64_t sum_ns = latency.Unsigned("sum_ns");
  std::vector<std::pair<uint32_t, uint64_t>> buckets;
  for (const Json& bucket : latency.Array("buckets")) {
    if (!bucket.is_array() || bucket.size() != 2 || !bucket[0].is_number_unsigned() ||
        !bucket[1].is_number_unsigned() ||
        bucket[0].get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
      latency.Fail("buckets", "are not pairs of whole numbers");
      return;
    }
    buckets.emplace_back(bucket[0].get<uint32_t>(), bucket[1].get<uint64_t>());
  }
  if (!LatencyHistogram::FromSparse(buckets, sum_ns, totals.latency)) {
    latency.Fail("buckets", "have a number out of range");
  }
}

// A row of stream.get: two more columns where the node looked at the content.
std::optional<StreamEntry> DecodeEntry(const Json& row) {
  if (!row.is_array() || (row.size() != 5 && row.size() != 7)) return std::nullopt;
  for (size_t i = 0; i < row.size(); ++i) {
    if (i == 1 ? !row[i].is_string() : !row[i].is_number_unsigned()) return std::nullopt;
  }
  const auto& op = row[1].get_ref<const std::string&>();
  if (op.size() != 1 || std::string_view("RWFTZ").find(op[0]) == std::string_view::npos) {
    return std::nullopt;
  }
  StreamEntry entry{.time_ns = row[0].get<uint64_t>(),
                    .op = op[0],
                    .offset = row[2].get<uint64_t>(),
                    .bytes = row[3].get<uint64_t>(),
                    .service_ns = row[4].get<uint64_t>()};
  if (row.size() == 7) {
    entry.has_content = true;
    entry.fingerprint = row[5].get<uint64_t>();
    entry.compressed_per_mille =
        static_cast<uint16_t>(std::min<uint64_t>(row[6].get<uint64_t>(), 1000));
  }
  return entry;
}

// Cuts at a byte: a torn character is replaced when the text is written.
std::string Cut(const std::string& text, size_t bytes_max) { return text.substr(0, bytes_max); }

}  // namespace

absl::StatusOr<NodeInfo> DecodeNodeInfo(const std::string& json) {
  EBB_ASSIGN_OR_RETURN(const Json root, Parse(json));
  absl::Status fault;
  Fields fields(root, "", fault);
  NodeInfo node;
  node.info.name = fields.Text("name");
  node.info.uuid = fields.Text("uuid");
  node.info.description = fields.Text("describe");
  node.info.device_class = fields.Text("device_class");
  node.volume_bytes = fields.Unsigned("volume_bytes");
  if (!fault.ok()) return fault;
  return node;
}

absl::StatusOr<NodeMachine> DecodeNodeMachine(const std::string& json) {
  EBB_ASSIGN_OR_RETURN(const Json root, Parse(json));
  absl::Status fault;
  Fields fields(root, "", fault);
  NodeMachine machine;
  machine.groups = fields.Unsigned("groups");
  machine.threads = fields.Unsigned("threads");
  machine.host_memory_bytes = fields.Unsigned("host_memory_bytes");
  for (const Json& each : fields.Array("devices")) {
    Fields device(each, fmt::format("devices[{}]", machine.devices.size()), fault);
    machine.devices.push_back({.role = device.Text("role"),
                               .size_bytes = device.Unsigned("size_bytes"),
                               .shape = device.Text("shape"),
                               .shape_scale = device.Real("shape_scale")});
  }
  if (!fault.ok()) return fault;
  return machine;
}

absl::StatusOr<KnobSpace> DecodeKnobSpace(const std::string& json) {
  EBB_ASSIGN_OR_RETURN(const Json root, Parse(json));
  absl::Status fault;
  Fields fields(root, "", fault);
  std::vector<KnobSpec> knobs;
  for (const Json& knob : fields.Array("knobs")) {
    knobs.push_back(DecodeKnob(knob, knobs.size(), fault));
  }
  if (!fault.ok()) return fault;
  return KnobSpace(std::move(knobs));
}

absl::StatusOr<SettingState> DecodeSettings(const KnobSpace& space, const std::string& json) {
  EBB_ASSIGN_OR_RETURN(const Json root, Parse(json));
  absl::Status fault;
  Fields fields(root, "", fault);
  SettingState state;
  state.version = fields.Unsigned("version");
  state.current = DecodeSetting(space, fields.Object("setting"), "setting", fault);
  state.incumbent = DecodeSetting(space, fields.Object("incumbent"), "incumbent", fault);
  if (const Json* lease = fields.Find("lease"); lease != nullptr && !lease->is_null()) {
    state.lease = Fields(*lease, "lease", fault).Text("id");
  }
  if (!fault.ok()) return fault;
  return state;
}

absl::StatusOr<NodeSnapshot> DecodeSnapshot(const std::string& json) {
  EBB_ASSIGN_OR_RETURN(const Json root, Parse(json));
  absl::Status fault;
  Fields fields(root, "", fault);
  NodeSnapshot snapshot;
  snapshot.wall_ms = fields.Integer("wall_ms");
  snapshot.monotonic_ns = fields.Unsigned("monotonic_ns");
  snapshot.epoch = fields.Unsigned("node_epoch");
  snapshot.setting_version = fields.Unsigned("setting_version");
  const Json& ops = fields.Object("ops");
  DecodeOp(ops, "read", snapshot.read, fault);
  DecodeOp(ops, "write", snapshot.write, fault);
  DecodeOp(ops, "flush", snapshot.flush, fault);
  DecodeOp(ops, "trim", snapshot.trim, fault);
  const Json& counters = fields.Object("counters");
  Fields counter_fields(counters, "counters", fault);
  for (const auto& item : counters.items()) {
    snapshot.counters[item.key()] = counter_fields.Unsigned(item.key().c_str());
  }
  const Json& gauges = fields.Object("gauges");
  Fields gauge_fields(gauges, "gauges", fault);
  for (const auto& item : gauges.items()) {
    snapshot.gauges[item.key()] = item.value().is_boolean() ? (item.value().get<bool>() ? 1 : 0)
                                                            : gauge_fields.Real(item.key().c_str());
  }
  if (!fault.ok()) return fault;
  return snapshot;
}

absl::StatusOr<StreamSlice> DecodeStream(const std::string& json) {
  EBB_ASSIGN_OR_RETURN(const Json root, Parse(json));
  absl::Status fault;
  Fields fields(root, "", fault);
  StreamSlice slice;
  slice.next = fields.Unsigned("next");
  slice.dropped = fields.Unsigned("dropped");
  slice.sample_rate = fields.Real("sample_rate");
  if (fault.ok() && !(slice.sample_rate > 0 && slice.sample_rate <= 1)) {
    fields.Fail("sample_rate", "is not between 0 and 1");
  }
  for (const Json& record : fields.Array("records")) {
    const std::optional<StreamEntry> entry = DecodeEntry(record);
    if (!entry) {
      fields.Fail("records", "are not [time_ns, op, offset, bytes, service_ns]");
      break;
    }
    slice.entries.push_back(*entry);
  }
  if (!fault.ok()) return fault;
  return slice;
}

absl::StatusOr<std::vector<NodeEvent>> DecodeEvents(const std::string& json) {
  EBB_ASSIGN_OR_RETURN(const Json root, Parse(json));
  absl::Status fault;
  Fields fields(root, "", fault);
  std::vector<NodeEvent> events;
  for (const Json& each : fields.Array("events")) {
    Fields event_fields(each, fmt::format("events[{}]", events.size()), fault);
    NodeEvent event;
    event.number = event_fields.Unsigned("number");
    event.wall_ms = event_fields.Integer("wall_ms");
    const std::optional<NodeEvent::Kind> kind = EventKindFromWord(event_fields.Text("kind"));
    if (!kind) event_fields.Fail("kind", "is unknown");
    event.kind = kind.value_or(NodeEvent::Kind::kError);
    event.text = event_fields.Text("text");
    event.lease = event_fields.Text("lease");
    event.setting_version = event_fields.Unsigned("setting_version");
    events.push_back(std::move(event));
  }
  if (!fault.ok()) return fault;
  return events;
}

absl::StatusOr<AppliedSetting> DecodeApplied(const std::string& json) {
  EBB_ASSIGN_OR_RETURN(const Json root, Parse(json));
  absl::Status fault;
  Fields fields(root, "", fault);
  AppliedSetting applied;
  applied.version = fields.Unsigned("version");
  applied.lease = fields.Text("lease");
  if (!fault.ok()) return fault;
  return applied;
}

absl::StatusOr<uint64_t> DecodeVersion(const std::string& json) {
  EBB_ASSIGN_OR_RETURN(const Json root, Parse(json));
  absl::Status fault;
  const uint64_t version = Fields(root, "", fault).Unsigned("version");
  if (!fault.ok()) return fault;
  return version;
}

std::string EncodeSet(const KnobSpace& space, const Setting& setting, uint64_t version,
                      const LeaseTerms& terms) {
  Json values = Json::object();
  for (size_t i = 0; i < space.size(); ++i) {
    const int64_t value = setting.values[i];
    if (space[i].kind == KnobKind::kChoice) {
      values[space[i].name] = space[i].choices[static_cast<size_t>(value)];
    } else {
      values[space[i].name] = value;
    }
  }
  Json params = {{"setting", std::move(values)},
                 {"version", version},
                 {"actor", Cut(terms.actor, kActorBytesMax)},
                 {"reason", Cut(terms.reason, kReasonBytesMax)}};
  if (terms.lease_ms > 0) {
    params["lease_ms"] = terms.lease_ms;
    Json trips = Json::object();
    const TripConditions& wanted = terms.trips;
    if (wanted.read_p99_us_max) trips["read_p99_us_max"] = *wanted.read_p99_us_max;
    if (wanted.write_p99_us_max) trips["write_p99_us_max"] = *wanted.write_p99_us_max;
    if (wanted.errors_max) trips["errors_max"] = *wanted.errors_max;
    if (wanted.log_fill_per_s_max) trips["log_fill_per_s_max"] = *wanted.log_fill_per_s_max;
    if (wanted.throughput_ops_min) trips["throughput_ops_min"] = *wanted.throughput_ops_min;
    if (!trips.empty()) params["trips"] = std::move(trips);
  }
  return Dump(params);
}

std::string EncodeLease(const std::string& lease) { return Dump({{"lease", lease}}); }

std::string EncodeRenew(const std::string& lease, uint64_t lease_ms) {
  return Dump({{"lease", lease}, {"lease_ms", lease_ms}});
}

std::string EncodeRevert(const std::string& lease, const std::string& reason) {
  return Dump({{"lease", lease}, {"reason", Cut(reason, kReasonBytesMax)}});
}

std::string EncodeAfter(uint64_t after, uint64_t max) {
  return Dump({{"after", after}, {"max", max}});
}

}  // namespace ebb::env
