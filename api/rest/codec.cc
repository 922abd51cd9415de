#include "api/rest/codec.h"

#include <cmath>
#include <optional>
#include <utility>

#include "base/time_text.h"
#include "engine/public_json.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::rest {
namespace {

using engine::EffectToPublicJson;
using engine::TimeToPublicJson;
using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  // Reasons and names may come from a node; bytes that are not UTF-8 are replaced, never thrown on.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// A choice as its word, everything else as its number.
Json WireValue(const env::KnobSpec& spec, int64_t value) {
  if (spec.kind == env::KnobKind::kChoice && value >= 0 &&
      static_cast<size_t>(value) < spec.choices.size()) {
    return spec.choices[static_cast<size_t>(value)];
  }
  return value;
}

std::string ValueText(const env::KnobSpec& spec, int64_t value) {
  return env::KnobSpace({spec}).FormatValue(0, value);
}

std::string_view KindWord(env::KnobKind kind) {
  switch (kind) {
    case env::KnobKind::kInteger:
      return "integer";
    case env::KnobKind::kBytes:
      return "bytes";
    case env::KnobKind::kPercent:
      return "percent";
    case env::KnobKind::kMicroseconds:
      return "microseconds";
    case env::KnobKind::kChoice:
      return "choice";
  }
  return "integer";
}

// FROM and TO, or LOW and HIGH, of a knob; one that no node has told of is a plain number.
void AddRange(const std::string& first, int64_t first_value, const std::string& second,
              int64_t second_value, const env::KnobSpec* spec, Json& json) {
  const auto value = [&](int64_t raw) { return spec ? WireValue(*spec, raw) : Json(raw); };
  const auto text = [&](int64_t raw) { return spec ? ValueText(*spec, raw) : std::to_string(raw); };
  json[first] = value(first_value);
  json[second] = value(second_value);
  json[first + "_text"] = text(first_value);
  json[second + "_text"] = text(second_value);
}

const env::KnobSpec* SpecOf(const std::string& knob, const KnobSpecs& specs) {
  const auto found = specs.find(knob);
  return found == specs.end() ? nullptr : &found->second;
}

Json KnobChangeOf(const env::KnobChange& change, const KnobSpecs& specs) {
  Json json{{"knob", change.knob}};
  AddRange("from", change.from, "to", change.to, SpecOf(change.knob, specs), json);
  return json;
}

Json RecommendedKnobOf(const engine::RecommendedKnob& knob, const KnobSpecs& specs) {
  Json json = KnobChangeOf({knob.knob, knob.from, knob.to}, specs);
  AddRange("low", knob.low, "high", knob.high, SpecOf(knob.knob, specs), json);
  return json;
}

Json ChangeOf(const engine::Change& change, const KnobSpecs& specs) {
  Json json = engine::ChangeToPublicJson(change);
  Json& knobs = json["knobs"] = Json::array();
  for (const env::KnobChange& knob : change.knobs) knobs.push_back(KnobChangeOf(knob, specs));
  return json;
}

Json TunerOf(const engine::NodeStatus& node) {
  Json json;
  json["mode"] = engine::ModeWord(node.mode);
  json["on_exit"] = engine::OnExitWord(node.on_exit);
  json["agent"] = node.agent;
  json["paused"] = node.paused;
  json["paused_until"] = node.paused_until_ms ? TimeToPublicJson(*node.paused_until_ms) : Json();
  json["pause_reason"] = node.pause_reason;
  json["state"] = engine::TunerStateWord(node.state);
  json["why"] = node.why;
  json["baseline_progress"] = node.baseline_progress;
  return json;
}

Json ContextOf(const engine::ContextStatus& context) {
  Json json;
  json["id"] = context.id.empty() ? Json() : Json(context.id);
  json["load"] = context.load;
  json["remembered"] = context.remembered;
  json["windows"] = context.windows;
  json["first_seen"] = TimeToPublicJson(context.first_seen_ms);
  json["best_effect"] = EffectToPublicJson(context.best_effect);
  json["best_change"] =
      context.best_change > 0 ? Json(std::to_string(context.best_change)) : Json();
  return json;
}

Json UpliftSpanOf(const engine::UpliftSpan& span) {
  Json json;
  json["effect"] = EffectToPublicJson(span.effect);
  json["missing"] = span.missing;
  json["blocks"] = span.blocks;
  json["long_blocks"] = span.long_blocks;
  json["default_windows"] = span.default_windows;
  json["tuned_windows"] = span.tuned_windows;
  json["from"] = TimeToPublicJson(span.from_ms);
  json["to"] = TimeToPublicJson(span.to_ms);
  return json;
}

Json UpliftOf(const engine::UpliftReport& uplift) {
  Json json;
  json["since_attach"] = UpliftSpanOf(uplift.since_attach);
  json["recent"] = UpliftSpanOf(uplift.recent);
  json["recent"]["hours"] = uplift.recent_hours;
  json["dropped_blocks"] = uplift.dropped_blocks;
  json["last_dropped"] = uplift.last_dropped;
  return json;
}

Json OpOf(const env::OpWindow& op, double seconds) {
  const bool any = op.ops > 0;
  const auto per_second = [&](double count) {
    return seconds > 0 ? Json(count / seconds) : Json();
  };
  const auto micros = [&](double ns) { return any ? Json(ns / 1000.0) : Json(); };
  return {{"ops", op.ops},
          {"bytes", op.bytes},
          {"errors", op.errors},
          {"iops", per_second(static_cast<double>(op.ops))},
          {"bytes_per_s", per_second(static_cast<double>(op.bytes))},
          {"p50_us", micros(op.p50_ns)},
          {"p99_us", micros(op.p99_ns)},
          {"mean_us", micros(op.mean_ns)}};
}

Json WorkloadOf(const env::WorkloadDescriptor& load) {
  return {{"offered_ops_per_s", load.offered_ops_per_s},
          {"offered_bytes_per_s", load.offered_bytes_per_s},
          {"read_share", load.read_share},
          {"mean_read_bytes", load.mean_read_bytes},
          {"mean_write_bytes", load.mean_write_bytes},
          {"sequential_share", load.sequential_share},
          {"mean_in_flight", load.mean_in_flight},
          {"working_set_bytes", load.working_set_bytes},
          {"burstiness", load.burstiness},
          {"read_sizes", load.read_sizes},
          {"write_sizes", load.write_sizes},
          {"miss_ratios", load.miss_ratios},
          {"overwrite_shares", load.overwrite_shares},
          {"duplicate_share", load.duplicate_share},
          {"compressible_share", load.compressible_share}};
}

Json ObservationOf(const env::Observation& seen) {
  const env::WindowMetrics& metrics = seen.metrics;
  Json json;
  json["sequence"] = seen.sequence;
  json["at"] = TimeToPublicJson(seen.wall_ms);
  json["window_seconds"] = metrics.seconds;
  json["valid"] = seen.valid;
  json["void_reason"] = seen.void_reason;
  json["setting_version"] = seen.setting_version;
  json["read"] = OpOf(metrics.read, metrics.seconds);
  json["write"] = OpOf(metrics.write, metrics.seconds);
  json["flush"] = OpOf(metrics.flush, metrics.seconds);
  json["mean_in_flight"] = metrics.mean_in_flight;
  json["cache"] = {
      {"space_bytes", metrics.cache_space_bytes}, {"dirty_bytes", metrics.dirty_bytes},
      {"clean_bytes", metrics.clean_bytes},       {"free_bytes", metrics.free_bytes},
      {"dirty_share", metrics.dirty_share},       {"read_hit_share", metrics.read_hit_share},
      {"draining", metrics.draining_by_operator}};
  json["space"] = {{"logical_bytes", metrics.logical_bytes},
                   {"unique_bytes", metrics.unique_bytes},
                   {"physical_bytes", metrics.physical_bytes}};
  json["destaged_bytes"] = metrics.destaged_bytes;
  json["capacity_written_bytes"] = metrics.capacity_written_bytes;
  json["throttle_seconds"] = metrics.throttle_seconds;
  json["cpu_seconds"] = metrics.cpu_seconds;
  json["workload"] = WorkloadOf(seen.descriptor);
  return json;
}

// Columns of one value of the buckets: their means, minima or maxima.
Json ColumnsOf(const std::vector<engine::SeriesBucket>& buckets,
               engine::SeriesPoint engine::SeriesBucket::*which) {
  Json columns;
  for (const engine::SeriesColumn& column : engine::kSeriesColumns) {
    auto& values = columns[std::string(column.name)] = Json::array();
    for (const auto& bucket : buckets) {
      const double value = bucket.*which.*column.value;
      values.push_back(std::isfinite(value) ? Json(value) : Json());
    }
  }
  return columns;
}

Json CountsOf(const std::vector<engine::SeriesBucket>& buckets) {
  Json columns;
  for (size_t i = 0; i < engine::kSeriesColumns.size(); ++i) {
    auto& values = columns[std::string(engine::kSeriesColumns[i].name)] = Json::array();
    for (const auto& bucket : buckets) values.push_back(bucket.counts[i]);
  }
  return columns;
}

}  // namespace

std::string NodeJson(const engine::NodeStatus& node, const KnobSpecs& specs) {
  Json json;
  json["id"] = node.id;
  json["control_socket"] = node.control_socket;
  json["connected"] = node.connected;
  json["health"] = node.health;
  json["store"] = {{"name", node.info.name},
                   {"uuid", node.info.uuid},
                   {"description", node.info.description},
                   {"device_class", node.info.device_class},
                   {"epoch", node.info.epoch}};
  json["goal"] = engine::GoalName(node.goal);
  json["goal_text"] = engine::GoalText(node.goal);
  json["limits_broken"] = node.limits_broken;
  json["tuner"] = TunerOf(node);
  json["index"] = {{"now", OrNull(node.index_now)}, {"minute_mean", OrNull(node.index_minute)}};
  json["windows"] = node.windows;
  json["void_windows"] = node.void_windows;
  json["setting_version"] = node.setting_version;
  json["uplift"] = UpliftOf(node.uplift);
  json["context"] = ContextOf(node.context);
  json["last_change"] = node.last_change ? ChangeOf(*node.last_change, specs) : Json();
  json["latest"] = node.latest ? ObservationOf(*node.latest) : Json();
  return Dump(json);
}

std::string TunerJson(const engine::NodeStatus& node) { return Dump(TunerOf(node)); }

std::string GoalJson(const engine::NodeStatus& node) {
  const engine::GoalLimits& limits = node.goal.limits;
  Json json;
  json["goal"] = engine::GoalName(node.goal);
  json["weights"] = node.goal.weights ? Json(engine::WeightsByName(node.goal)) : Json();
  for (const engine::GoalLimit& limit : engine::kGoalLimits) {
    json["limits"][std::string(limit.name) + "_us"] = OrNull(limits.*limit.us_max);
  }
  json["text"] = engine::GoalText(node.goal);
  return Dump(json);
}

std::string KnobJson(const engine::KnobState& knob) {
  const env::KnobSpec& spec = knob.spec;
  Json json;
  json["name"] = spec.name;
  json["kind"] = KindWord(spec.kind);
  json["value"] = WireValue(spec, knob.value);
  json["value_text"] = ValueText(spec, knob.value);
  json["incumbent"] = WireValue(spec, knob.incumbent);
  json["default"] = WireValue(spec, spec.default_value);
  json["default_text"] = ValueText(spec, spec.default_value);
  json["min"] = spec.min;
  json["max"] = spec.max;
  json["step"] = spec.step;
  json["log_scale"] = spec.log_scale;
  json["choices"] = spec.choices;
  json["pinned"] = knob.pinned;
  json["source"] = knob.source;
  json["since"] = TimeToPublicJson(knob.since_ms);
  json["owner"] = spec.agent_owned ? "agent" : "operator";
  json["settle_seconds"] = spec.settle_seconds;
  json["coupled_with"] = spec.coupled_with;
  json["trades"] = spec.trades;
  return Dump(json);
}

std::string ChangeJson(const engine::Change& change, const KnobSpecs& specs) {
  return Dump(ChangeOf(change, specs));
}

std::string RecommendationJson(const engine::Recommendation& advice, const KnobSpecs& specs) {
  Json json;
  json["id"] = advice.id;
  json["node"] = advice.node;
  json["change"] = std::to_string(advice.change_id);
  json["state"] = engine::RecommendationWord(advice.state);
  json["actor"] = advice.actor;
  json["goal"] = advice.goal;
  auto& knobs = json["knobs"] = Json::array();
  for (const auto& knob : advice.knobs) knobs.push_back(RecommendedKnobOf(knob, specs));
  json["reason"] = advice.reason;
  json["expected"] = EffectToPublicJson(advice.expected);
  json["made_at"] = TimeToPublicJson(advice.made_ms);
  json["expires_at"] = TimeToPublicJson(advice.expires_ms);
  json["decided_by"] = advice.decided_by;
  json["decided_at"] = TimeToPublicJson(advice.decided_ms);
  json["decision_reason"] = advice.decision_reason;
  return Dump(json);
}

std::string SeriesJson(const std::string& node, int64_t from_ms, int64_t to_ms,
                       const engine::Series& series) {
  using engine::SeriesBucket;
  const auto column_of = [&](const auto& value_of) {
    Json column = Json::array();
    for (const SeriesBucket& bucket : series.buckets) column.push_back(value_of(bucket));
    return column;
  };
  Json means;
  means["time_ms"] = column_of([](const SeriesBucket& b) { return b.mean.wall_ms; });
  means.update(ColumnsOf(series.buckets, &SeriesBucket::mean));
  means["on_trial"] = column_of([](const SeriesBucket& b) { return b.mean.on_trial; });
  means["holdback"] = column_of([](const SeriesBucket& b) { return b.mean.holdback; });
  means["windows"] = column_of([](const SeriesBucket& b) { return b.windows; });
  Json json;
  json["node"] = node;
  json["from"] = FormatRfc3339(from_ms);
  json["to"] = FormatRfc3339(to_ms);
  json["count"] = series.buckets.size();
  json["bucket_ms"] = series.bucket_ms;
  json["series"] = std::move(means);
  // Of single windows they would say the same again.
  const bool single = series.bucket_ms == 0;
  json["min"] = single ? Json() : ColumnsOf(series.buckets, &SeriesBucket::min);
  json["max"] = single ? Json() : ColumnsOf(series.buckets, &SeriesBucket::max);
  json["counts"] = single ? Json() : CountsOf(series.buckets);
  return Dump(json);
}

std::string QuotedJson(std::string_view text) { return Dump(Json(text)); }

std::string ArrayJson(const std::vector<std::string>& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

}  // namespace ebb::rest
