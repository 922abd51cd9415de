#include "engine/context/context_library.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace ebb::engine {
namespace {

using Json = nlohmann::json;

// The middle follows a load that creeps; this many windows are its memory.
constexpr uint64_t kMemoryWindows = 600;
// What a failed recall leaves of the standing.
constexpr double kAfterRevert = 0.4;
constexpr double kAfterNull = 0.5;
// A context that was not seen for so long is worth half of what it was.
constexpr double kHalfValueMs = 14.0 * 24 * 3600 * 1000;

// What would be lost with it: a gain that can be had again, the less likely the longer ago.
double ValueOf(const LoadContext& context, int64_t now_ms) {
  double gain = 0;
  for (const auto& [goal, best] : context.best) {
    gain = std::max(gain, std::max(0.0, best.effect.mean) * best.standing);
  }
  const double age_ms = std::max(0.0, static_cast<double>(now_ms - context.last_seen_ms));
  return gain * std::exp2(-age_ms / kHalfValueMs);
}

// One effect on top of another.
Effect Compound(const Effect& first, const Effect& second) {
  const double middle = std::log1p(first.mean) + std::log1p(second.mean);
  const auto arm = [](double a, double b) { return std::sqrt(a * a + b * b); };
  const double below = arm(std::log1p(first.mean) - std::log1p(first.low),
                           std::log1p(second.mean) - std::log1p(second.low));
  const double above = arm(std::log1p(first.high) - std::log1p(first.mean),
                           std::log1p(second.high) - std::log1p(second.mean));
  return {std::expm1(middle), std::expm1(middle - below), std::expm1(middle + above)};
}

Json BestJson(const BestKnown& best) {
  return {{"setting", best.setting},  {"mean", best.effect.mean},    {"low", best.effect.low},
          {"high", best.effect.high}, {"change_id", best.change_id}, {"proved_ms", best.proved_ms},
          {"standing", best.standing}};
}

BestKnown BestFrom(const Json& json) {
  BestKnown best;
  best.setting = json.at("setting").get<std::map<std::string, int64_t>>();
  best.effect = {json.at("mean").get<double>(), json.at("low").get<double>(),
                 json.at("high").get<double>()};
  best.change_id = json.at("change_id").get<uint64_t>();
  best.proved_ms = json.at("proved_ms").get<int64_t>();
  best.standing = json.at("standing").get<double>();
  return best;
}

Json ContextJson(const LoadContext& context) {
  Json best = Json::object();
  for (const auto& [goal, known] : context.best) best[goal] = BestJson(known);
  return {{"id", context.id},
          {"device_class", context.device_class},
          {"closed_loop", context.centre.closed_loop},
          {"centre", context.centre.value},
          {"spread", context.spread},
          {"windows", context.windows},
          {"first_seen_ms", context.first_seen_ms},
          {"last_seen_ms", context.last_seen_ms},
          {"best", best}};
}

LoadContext ContextFrom(const Json& json) {
  LoadContext context;
  context.id = json.at("id").get<std::string>();
  context.device_class = json.at("device_class").get<std::string>();
  context.centre.closed_loop = json.at("closed_loop").get<bool>();
  context.centre.value = json.at("centre").get<std::array<double, kLoadFeatureCount>>();
  context.spread = json.at("spread").get<std::array<double, kLoadFeatureCount>>();
  context.windows = json.at("windows").get<uint64_t>();
  context.first_seen_ms = json.at("first_seen_ms").get<int64_t>();
  context.last_seen_ms = json.at("last_seen_ms").get<int64_t>();
  for (const auto& [goal, known] : json.at("best").items()) context.best[goal] = BestFrom(known);
  return context;
}

}  // namespace

void LoadContext::Add(const LoadFeatures& features, int64_t wall_ms) {
  if (windows == 0) {
    centre = features;
    first_seen_ms = wall_ms;
  }
  ++windows;
  last_seen_ms = wall_ms;
  const double share = 1 / static_cast<double>(std::min(windows, kMemoryWindows));
  for (size_t i = 0; i < kLoadFeatureCount; ++i) {
    const double off = features.value[i] - centre.value[i];
    centre.value[i] += share * off;
    const double variance = spread[i] * spread[i];
    spread[i] = std::sqrt(std::max(0.0, (1 - share) * (variance + share * off * off)));
  }
}

std::string LoadContext::Load() const {
  const LoadShape shape = ShapeOf(centre);
  std::string text = fmt::format("{:.0f} % reads", 100 * shape.read_share);
  if (shape.read_share > 0.01) {
    text += " of " + FormatBytes(static_cast<uint64_t>(shape.mean_read_bytes));
  }
  if (shape.read_share < 0.99) {
    text += ", writes of " + FormatBytes(static_cast<uint64_t>(shape.mean_write_bytes));
  }
  text += centre.closed_loop ? fmt::format(", {:.1f} requests waiting", shape.load_size)
                             : fmt::format(", {:.0f} requests a second", shape.load_size);
  return text;
}

double ContextDistance(const LoadContext& a, const LoadContext& b) {
  if (a.device_class != b.device_class || a.centre.closed_loop != b.centre.closed_loop) {
    return std::numeric_limits<double>::infinity();
  }
  double sum = 0;
  for (size_t i = 0; i < kLoadFeatureCount; ++i) {
    const double scale = std::max({1.0, a.spread[i], b.spread[i]});
    const double off = (a.centre.value[i] - b.centre.value[i]) / scale;
    sum += off * off;
  }
  return std::sqrt(sum);
}

LoadContext* ContextLibrary::Find(std::string_view id) {
  const auto found = std::find_if(contexts_.begin(), contexts_.end(),
                                  [&](const LoadContext& each) { return each.id == id; });
  return found == contexts_.end() ? nullptr : &*found;
}

LoadContext* ContextLibrary::Match(const LoadContext& stretch) {
  LoadContext* nearest = nullptr;
  double distance = kSameContextDistance;
  for (LoadContext& each : contexts_) {
    const double here = ContextDistance(each, stretch);
    if (here > distance) continue;
    distance = here;
    nearest = &each;
  }
  return nearest;
}

LoadContext& ContextLibrary::Remember(LoadContext stretch) {
  stretch.id = fmt::format("c{}", ++ids_given_);
  const int64_t now_ms = stretch.last_seen_ms;
  while (contexts_.size() >= kContextsMax) {
    contexts_.erase(std::min_element(contexts_.begin(), contexts_.end(),
                                     [&](const LoadContext& a, const LoadContext& b) {
                                       return std::pair(ValueOf(a, now_ms), a.last_seen_ms) <
                                              std::pair(ValueOf(b, now_ms), b.last_seen_ms);
                                     }));
  }
  return contexts_.emplace_back(std::move(stretch));
}

void ContextLibrary::NoteProved(std::string_view id, const std::string& goal,
                                const std::map<std::string, int64_t>& from, BestKnown proved) {
  LoadContext* context = Find(id);
  if (context == nullptr) return;
  const auto known = context->best.find(goal);
  if (known != context->best.end()) {
    // Written twice, when the first time did not reach the disk.
    if (known->second.change_id == proved.change_id) return;
    if (known->second.setting == from) {
      proved.effect = Compound(known->second.effect, proved.effect);
    }
  }
  context->best[goal] = std::move(proved);
}

void ContextLibrary::NoteRecall(std::string_view id, const std::string& goal, Verdict verdict) {
  LoadContext* context = Find(id);
  if (context == nullptr) return;
  const auto known = context->best.find(goal);
  if (known == context->best.end()) return;
  double& standing = known->second.standing;
  if (verdict == Verdict::kKeep) standing = 1;
  if (verdict == Verdict::kRevert) standing *= kAfterRevert;
  if (verdict == Verdict::kInconclusive) standing *= kAfterNull;
  if (standing < kStandingMin) context->best.erase(known);
}

std::string ContextLibrary::Save() const {
  Json contexts = Json::array();
  for (const LoadContext& each : contexts_) contexts.push_back(ContextJson(each));
  const Json json{{"format", 1}, {"ids_given", ids_given_}, {"contexts", contexts}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status ContextLibrary::Load(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    std::vector<LoadContext> contexts;
    for (const Json& each : json.at("contexts")) contexts.push_back(ContextFrom(each));
    if (contexts.size() > kContextsMax) return absl::DataLossError("too many load contexts");
    ids_given_ = json.at("ids_given").get<uint64_t>();
    contexts_ = std::move(contexts);
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::DataLossError(std::string("the remembered load contexts cannot be read: ") +
                               error.what());
  }
}

}  // namespace ebb::engine
