#include "storage-backend/control/knob_json.h"

#include <cmath>
#include <limits>
#include <string_view>

#include "base/check.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/params.h"
#include "storage-backend/control/suggest.h"

namespace ebb::storage {
namespace {

using Json = nlohmann::json;

constexpr size_t kActorBytesMax = 200;
constexpr size_t kReasonBytesMax = 2000;

Json KnobValueJson(const KnobSpec& spec, int64_t value) {
  if (spec.kind != KnobKind::kChoice) return value;
  EBB_CHECK(value >= 0 && static_cast<size_t>(value) < spec.choices.size());
  return spec.choices[static_cast<size_t>(value)];
}

Json SettingJson(const Setting& setting) {
  Json json = Json::object();
  for (const KnobSpec& spec : KnobTable()) {
    json[std::string(spec.name)] = KnobValueJson(spec, setting[spec.id]);
  }
  return json;
}

Json TripsJson(const TripConditions& trips) {
  Json json = Json::object();
  if (trips.read_p99_us_max) json["read_p99_us_max"] = *trips.read_p99_us_max;
  if (trips.write_p99_us_max) json["write_p99_us_max"] = *trips.write_p99_us_max;
  if (trips.errors_max) json["errors_max"] = *trips.errors_max;
  if (trips.log_fill_per_s_max) json["log_fill_per_s_max"] = *trips.log_fill_per_s_max;
  if (trips.throughput_ops_min) json["throughput_ops_min"] = *trips.throughput_ops_min;
  return json;
}

Json ReadingJson(const std::optional<TripReading>& reading) {
  if (!reading) return nullptr;
  return {{"condition", reading->condition}, {"value", reading->value}, {"limit", reading->limit}};
}

std::string_view KindName(KnobKind kind) {
  switch (kind) {
    case KnobKind::kInteger:
      return "integer";
    case KnobKind::kBytes:
      return "bytes";
    case KnobKind::kPercent:
      return "percent";
    case KnobKind::kMicroseconds:
      return "microseconds";
    case KnobKind::kChoice:
      return "choice";
  }
  return "integer";
}

std::string_view UnitName(KnobKind kind) {
  switch (kind) {
    case KnobKind::kBytes:
      return "B";
    case KnobKind::kPercent:
      return "%";
    case KnobKind::kMicroseconds:
      return "us";
    case KnobKind::kInteger:
    case KnobKind::kChoice:
      break;
  }
  return "";
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// "lz4 or zstd1": the words that a choice knob takes.
std::string ChoiceList(const KnobSpec& spec) {
  std::string list;
  for (size_t i = 0; i < spec.choices.size(); ++i) {
    list += i == 0 ? "" : i + 1 == spec.choices.size() ? " or " : ", ";
    list += spec.choices[i];
  }
  return list;
}

std::optional<int64_t> ParseKnobValue(const KnobSpec& spec, const Json& value,
                                      std::vector<std::string>& faults) {
  if (spec.kind == KnobKind::kChoice) {
    const std::optional<int64_t> choice =
        value.is_string() ? ParseChoice(spec, value.get<std::string>()) : std::nullopt;
    if (!choice) {
      faults.push_back(
          fmt::format("{} must be {}, not {}", spec.name, ChoiceList(spec), ShortJson(value)));
    }
    return choice;
  }
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) {
    faults.push_back(fmt::format("{} must be an integer, not {}", spec.name, ShortJson(value)));
    return std::nullopt;
  }
  return value.get<int64_t>();
}

KnobValues ParseKnobValues(const Json& setting, std::vector<std::string>& faults) {
  KnobValues values;
  if (!setting.is_object() || setting.empty()) {
    faults.emplace_back("setting must be an object with at least one knob");
    return values;
  }
  for (const auto& [name, value] : setting.items()) {
    const KnobSpec* spec = FindKnob(name);
    if (spec == nullptr) {
      std::vector<std::string_view> known;
      for (const KnobSpec& knob : KnobTable()) known.push_back(knob.name);
      faults.push_back(
          fmt::format("there is no knob {}{}", ShortJson(name), DidYouMean(name, known)));
    } else if (const auto parsed = ParseKnobValue(*spec, value, faults)) {
      values.emplace_back(spec->id, *parsed);
    }
  }
  return values;
}

TripConditions ParseTrips(const Json& json, std::vector<std::string>& faults) {
  TripConditions trips;
  Params params(json, "trips", faults);
  trips.read_p99_us_max = params.OptionalPositive("read_p99_us_max");
  trips.write_p99_us_max = params.OptionalPositive("write_p99_us_max");
  trips.errors_max = params.OptionalUnsigned("errors_max", 0, std::numeric_limits<int64_t>::max());
  trips.log_fill_per_s_max = params.OptionalPositive("log_fill_per_s_max");
  trips.throughput_ops_min = params.OptionalPositive("throughput_ops_min");
  params.RefuseOthers();
  return trips;
}

}  // namespace

std::string SettingToJson(const Setting& setting) { return SettingJson(setting).dump(); }

std::string KnobTableToJson(const KnobLimits& limits) {
  Json knobs = Json::array();
  for (const KnobSpec& spec : KnobTable()) {
    knobs.push_back(
        {{"name", spec.name},
         {"kind", KindName(spec.kind)},
         {"min", spec.min},
         {"max", KnobMax(spec, limits)},
         {"default", KnobValueJson(spec, spec.default_value)},
         {"step", spec.step},
         {"log_scale", spec.log_scale},
         {"unit", UnitName(spec.kind)},
         {"choices", std::vector<std::string>(spec.choices.begin(), spec.choices.end())},
         {"settle_seconds", spec.settle_seconds},
         {"owner", spec.owner == KnobOwner::kAgent ? "agent" : "operator"},
         {"coupled_with", spec.coupled_with},
         {"trades", spec.trades}});
  }
  return Dump({{"knobs", std::move(knobs)}});
}

std::string KnobStateToJson(const KnobState& state) {
  Json json = {{"version", state.version},
               {"setting", SettingJson(state.setting)},
               {"incumbent", SettingJson(state.incumbent)},
               {"lease", nullptr},
               {"last_revert", nullptr}};
  if (state.lease) {
    json["lease"] = {{"id", state.lease->id},
                     {"expires_in_ms", state.lease->expires_in_ms},
                     {"trips", TripsJson(state.lease->trips)}};
  }
  if (state.last_revert) {
    json["last_revert"] = {{"lease", state.last_revert->lease},
                           {"cause", state.last_revert->cause},
                           {"reading", ReadingJson(state.last_revert->reading)},
                           {"wall_ms", state.last_revert->wall_ms}};
  }
  return Dump(json);
}

std::string EventsToJson(const std::vector<NodeEvent>& events) {
  Json list = Json::array();
  for (const NodeEvent& event : events) {
    list.push_back({{"number", event.number},
                    {"wall_ms", event.wall_ms},
                    {"kind", EventKindName(event.kind)},
                    {"text", event.text},
                    {"setting_version", event.setting_version},
                    {"lease", event.lease.empty() ? Json(nullptr) : Json(event.lease)},
                    {"reading", ReadingJson(event.reading)}});
  }
  return Dump({{"events", std::move(list)}});
}

SetRequest ParseSetRequest(const std::string& params_json, std::vector<std::string>& faults) {
  SetRequest request;
  const Json json = Json::parse(params_json);
  Params params(json, "", faults);
  if (const Json* setting = params.Required("setting")) {
    request.values = ParseKnobValues(*setting, faults);
  }
  request.version = params.RequiredUnsigned("version", 0, std::numeric_limits<int64_t>::max());
  request.lease_ms = params.OptionalUnsigned("lease_ms", kLeaseMsMin, kLeaseMsMax).value_or(0);
  if (const Json* trips = params.Optional("trips")) {
    request.trips = ParseTrips(*trips, faults);
    if (params.Optional("lease_ms") == nullptr) {
      faults.emplace_back("trips need a lease_ms: a setting without a lease is not on trial");
    }
  }
  request.actor = params.OptionalText("actor", kActorBytesMax).value_or("unknown");
  request.reason = params.OptionalText("reason", kReasonBytesMax).value_or("");
  params.RefuseOthers();
  return request;
}

}  // namespace ebb::storage
