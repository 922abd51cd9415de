#include "engine/loop/recommendation_book.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/time_text.h"
#include "engine/history/change_json.h"

namespace ebb::engine {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kDaemonActor = "ebbd";

// FNV-1a: ids must be the same after every restart, and nobody attacks them.
class Digest {
 public:
  void Add(std::string_view text) {
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
    AddByte(0);
  }
  std::string Text() const { return fmt::format("r{:010x}", value_ & 0xff'ffff'ffff); }

 private:
  void AddByte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  uint64_t value_ = 0xcbf29ce484222325;
};

Json EntryJson(const Recommendation& entry) {
  Json json{{"id", entry.id},
            {"change_id", entry.change_id},
            {"node", entry.node},
            {"actor", entry.actor},
            {"goal", entry.goal},
            {"knobs", Json::array()},
            {"from_setting", entry.from_setting},
            {"reason", entry.reason},
            {"expected", EffectToJson(entry.expected)},
            {"made_ms", entry.made_ms},
            {"expires_ms", entry.expires_ms},
            {"state", RecommendationWord(entry.state)},
            {"decided_by", entry.decided_by},
            {"decided_ms", entry.decided_ms},
            {"decision_reason", entry.decision_reason}};
  for (const RecommendedKnob& knob : entry.knobs) {
    json["knobs"].push_back({{"knob", knob.knob},
                             {"from", knob.from},
                             {"to", knob.to},
                             {"low", knob.low},
                             {"high", knob.high}});
  }
  return json;
}

Recommendation EntryFrom(const Json& json) {
  Recommendation entry;
  entry.id = json.at("id").get<std::string>();
  entry.change_id = json.at("change_id").get<uint64_t>();
  entry.node = json.at("node").get<std::string>();
  entry.actor = json.at("actor").get<std::string>();
  entry.goal = json.at("goal").get<std::string>();
  for (const Json& knob : json.at("knobs")) {
    entry.knobs.push_back({knob.at("knob").get<std::string>(), knob.at("from").get<int64_t>(),
                           knob.at("to").get<int64_t>(), knob.at("low").get<int64_t>(),
                           knob.at("high").get<int64_t>()});
  }
  entry.from_setting = json.at("from_setting").get<std::map<std::string, int64_t>>();
  entry.reason = json.at("reason").get<std::string>();
  entry.expected = EffectFromJson(json.at("expected"));
  entry.made_ms = json.at("made_ms").get<int64_t>();
  entry.expires_ms = json.at("expires_ms").get<int64_t>();
  entry.state = ParseRecommendationState(json.at("state").get<std::string>()).value();
  entry.decided_by = json.at("decided_by").get<std::string>();
  entry.decided_ms = json.at("decided_ms").get<int64_t>();
  entry.decision_reason = json.at("decision_reason").get<std::string>();
  return entry;
}

std::vector<env::KnobChange> MoveOf(const Recommendation& entry) {
  std::vector<env::KnobChange> move;
  for (const RecommendedKnob& knob : entry.knobs) move.push_back({knob.knob, knob.from, knob.to});
  return move;
}

// "at 2026-11-30T08:00:00.000Z: too risky"
std::string DecisionText(const Recommendation& entry) {
  return fmt::format("at {}{}", FormatRfc3339(entry.decided_ms),
                     entry.decision_reason.empty() ? "" : ": " + entry.decision_reason);
}

}  // namespace

std::string RecommendationId(std::string_view node, std::string_view goal,
                             const std::vector<env::KnobChange>& move) {
  Digest digest;
  digest.Add(node);
  digest.Add(goal);
  for (const env::KnobChange& change : move) {
    digest.Add(change.knob);
    digest.Add(std::to_string(change.from));
    digest.Add(std::to_string(change.to));
  }
  return digest.Text();
}

Recommendation* RecommendationBook::Open() {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [](const Recommendation& entry) { return entry.open(); });
  return found == entries_.end() ? nullptr : &*found;
}

std::optional<Recommendation> RecommendationBook::open() const {
  for (const Recommendation& entry : entries_) {
    if (entry.open()) return entry;
  }
  return std::nullopt;
}

std::optional<Recommendation> RecommendationBook::Find(std::string_view id) const {
  for (const Recommendation& entry : entries_) {
    if (entry.id == id) return entry;
  }
  return std::nullopt;
}

std::vector<Recommendation> RecommendationBook::NewestFirst() const {
  return {entries_.rbegin(), entries_.rend()};
}

void RecommendationBook::Add(Recommendation recommendation) {
  EBB_CHECK(recommendation.open() && Open() == nullptr);
  std::erase_if(entries_, [&](const auto& entry) { return entry.id == recommendation.id; });
  entries_.push_back(std::move(recommendation));
  ++version_;
  if (entries_.size() <= kBookEntriesMax) return;
  // A person's no outlives what merely ran its course.
  auto oldest = std::find_if(entries_.begin(), entries_.end(), [](const Recommendation& entry) {
    return entry.state != RecommendationState::kRejected;
  });
  if (oldest + 1 == entries_.end()) oldest = entries_.begin();
  entries_.erase(oldest);
}

absl::StatusOr<Recommendation> RecommendationBook::Decide(std::string_view id, bool approve,
                                                          const std::string& actor,
                                                          const std::string& reason,
                                                          int64_t now_ms) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Recommendation& one) { return one.id == id; });
  if (entry == entries_.end()) {
    return absl::NotFoundError(fmt::format("there is no recommendation {}", id));
  }
  if (!entry->open()) {
    return absl::FailedPreconditionError(fmt::format("recommendation {} was {} by {} {}", id,
                                                     RecommendationWord(entry->state),
                                                     entry->decided_by, DecisionText(*entry)));
  }
  if (now_ms >= entry->expires_ms) {
    return absl::FailedPreconditionError(
        fmt::format("recommendation {} expired at {}", id, FormatRfc3339(entry->expires_ms)));
  }
  if (approve && entry->state == RecommendationState::kApproved) {
    return absl::FailedPreconditionError(
        fmt::format("recommendation {} was approved by {} already", id, entry->decided_by));
  }
  entry->state = approve ? RecommendationState::kApproved : RecommendationState::kRejected;
  entry->decided_by = actor;
  entry->decided_ms = now_ms;
  entry->decision_reason = reason;
  ++version_;
  return *entry;
}

std::optional<Recommendation> RecommendationBook::Close(RecommendationState state,
                                                        const std::string& reason, int64_t now_ms) {
  Recommendation* entry = Open();
  if (entry == nullptr) return std::nullopt;
  entry->state = state;
  // Who approved a trial stays on its record.
  if (state != RecommendationState::kTried) {
    entry->decided_by = kDaemonActor;
    entry->decided_ms = now_ms;
    entry->decision_reason = reason;
  }
  ++version_;
  return *entry;
}

std::string RecommendationBook::RejectionOf(const env::KnobSpace& space,
                                            const std::vector<env::KnobChange>& move,
                                            double unit_distance, int64_t now_ms) const {
  for (const Recommendation& entry : entries_) {
    if (entry.state != RecommendationState::kRejected) continue;
    if (now_ms >= entry.decided_ms + kRejectionMs) continue;
    if (!env::SameMove(space, MoveOf(entry), move, unit_distance)) continue;
    return fmt::format("{} rejected this move {}", entry.decided_by, DecisionText(entry));
  }
  return {};
}

std::string RecommendationBook::Save() const {
  Json json = Json::array();
  for (const Recommendation& entry : entries_) json.push_back(EntryJson(entry));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<RecommendationBook> RecommendationBook::Load(std::string_view text) {
  RecommendationBook book;
  try {
    for (const Json& entry : Json::parse(text)) book.entries_.push_back(EntryFrom(entry));
  } catch (const std::exception& error) {
    return absl::DataLossError(std::string("the recommendations of a node cannot be read: ") +
                               error.what());
  }
  return book;
}

}  // namespace ebb::engine
