#include "agents/baseline/static_agent.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_join.h"
#include "agents/baseline/agent_state.h"
#include "agents/baseline/movable_knobs.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::agents {
namespace {

constexpr size_t kKnobsPerProposal = 2;
constexpr int kVoidsMax = 2;
constexpr size_t kDecidedMax = 1000;

constexpr auto kMi = static_cast<int64_t>(kMiB);

// Starting values by the mechanisms: a disk wants large ordered extents and as many reads as
// possible kept off it; flash has parallelism to use and little to gain from ordering. They are
// proposals, not facts: each still has to pass the guard on the node at hand.
constexpr std::array<PresetKnob, 6> kDiskRead = {{{"nvme_read_share", 70},
                                                  {"destage_politeness", 80},
                                                  {"read_cache_bytes", 256 * kMi},
                                                  {"destage_batch_bytes", 8 * kMi},
                                                  {"readahead_blocks", 32},
                                                  {"destage_watermark", 60}}};
constexpr std::array<PresetKnob, 6> kDiskWrite = {{{"nvme_read_share", 10},
                                                   {"destage_politeness", 10},
                                                   {"destage_batch_bytes", 16 * kMi},
                                                   {"destage_watermark", 30},
                                                   {"destage_parallelism", 2},
                                                   {"throttle_softness", 70}}};
constexpr std::array<PresetKnob, 6> kDiskBalanced = {{{"destage_batch_bytes", 16 * kMi},
                                                      {"destage_politeness", 40},
                                                      {"read_cache_bytes", 128 * kMi},
                                                      {"nvme_read_share", 40},
                                                      {"destage_watermark", 40},
                                                      {"destage_parallelism", 2}}};
constexpr std::array<PresetKnob, 5> kSataSsdRead = {{{"nvme_read_share", 60},
                                                     {"destage_politeness", 70},
                                                     {"read_cache_bytes", 256 * kMi},
                                                     {"destage_parallelism", 2},
                                                     {"readahead_blocks", 16}}};
constexpr std::array<PresetKnob, 5> kSataSsdWrite = {{{"destage_parallelism", 4},
                                                      {"destage_politeness", 10},
                                                      {"nvme_read_share", 10},
                                                      {"destage_watermark", 30},
                                                      {"destage_batch_bytes", 8 * kMi}}};
constexpr std::array<PresetKnob, 5> kSataSsdBalanced = {{{"destage_parallelism", 4},
                                                         {"destage_politeness", 30},
                                                         {"read_cache_bytes", 128 * kMi},
                                                         {"destage_watermark", 40},
                                                         {"destage_batch_bytes", 4 * kMi}}};
constexpr std::array<PresetKnob, 3> kNvmeRead = {
    {{"destage_parallelism", 4}, {"read_cache_bytes", 128 * kMi}, {"destage_politeness", 60}}};
constexpr std::array<PresetKnob, 3> kNvmeWrite = {
    {{"destage_parallelism", 8}, {"destage_politeness", 0}, {"destage_batch_bytes", 2 * kMi}}};
constexpr std::array<PresetKnob, 3> kNvmeBalanced = {
    {{"destage_parallelism", 8}, {"destage_politeness", 20}, {"read_cache_bytes", 64 * kMi}}};

struct Preset {
  std::string_view device_class;
  GoalKind goal;
  std::span<const PresetKnob> knobs;
};

constexpr std::array<Preset, 9> kPresets = {{
    {"disk", GoalKind::kRead, kDiskRead},
    {"disk", GoalKind::kWrite, kDiskWrite},
    {"disk", GoalKind::kBalanced, kDiskBalanced},
    {"sata-ssd", GoalKind::kRead, kSataSsdRead},
    {"sata-ssd", GoalKind::kWrite, kSataSsdWrite},
    {"sata-ssd", GoalKind::kBalanced, kSataSsdBalanced},
    {"nvme", GoalKind::kRead, kNvmeRead},
    {"nvme", GoalKind::kWrite, kNvmeWrite},
    {"nvme", GoalKind::kBalanced, kNvmeBalanced},
}};

std::string_view GoalName(GoalKind goal) {
  switch (goal) {
    case GoalKind::kRead:
      return "read";
    case GoalKind::kWrite:
      return "write";
    case GoalKind::kBalanced:
      break;
  }
  return "balanced";
}

bool Contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

std::span<const PresetKnob> PresetFor(std::string_view device_class, GoalKind goal) {
  for (const Preset& preset : kPresets) {
    if (preset.device_class == device_class && preset.goal == goal) return preset.knobs;
  }
  return {};
}

std::optional<Proposal> StaticAgent::Propose(const ProposalContext& context) {
  const std::span<const PresetKnob> preset = PresetFor(context.device_class, context.goal);
  const std::string label = fmt::format("{}/{}", context.device_class, GoalName(context.goal));
  if (preset.empty()) {
    hold_reason_ = fmt::format("no preset for device class \"{}\"", context.device_class);
    return std::nullopt;
  }
  if (label != preset_) {  // a new goal: everything may be asked again
    preset_ = label;
    decided_.clear();
    pending_.clear();
    voids_ = 0;
  }
  // A proposal nobody answered counts as refused.
  decided_.insert(decided_.end(), pending_.begin(), pending_.end());
  pending_.clear();

  const std::vector<size_t> movable = MovableKnobs(context);
  Proposal proposal{.candidate = context.incumbent, .predicted = std::nullopt, .reason = ""};
  std::vector<std::string> moves;
  for (const PresetKnob& each : preset) {
    const std::optional<size_t> knob = context.space.Find(each.knob);
    if (!knob || std::find(movable.begin(), movable.end(), *knob) == movable.end()) continue;
    if (Contains(decided_, each.knob)) continue;
    const int64_t value = context.space.Clamp(*knob, static_cast<double>(each.value));
    if (value == context.incumbent.values[*knob]) continue;
    proposal.candidate.values[*knob] = value;
    pending_.emplace_back(each.knob);
    moves.push_back(fmt::format("{} {}", each.knob, context.space.FormatValue(*knob, value)));
    if (moves.size() == kKnobsPerProposal) break;
  }
  if (moves.empty()) {
    hold_reason_ = fmt::format("every part of the {} preset was tried", label);
    return std::nullopt;
  }
  hold_reason_ = "a part of the preset is on trial";
  proposal.reason = fmt::format("{} preset: {}", label, absl::StrJoin(moves, ", "));
  return proposal;
}

void StaticAgent::Learn(const Transition& transition) {
  if (pending_.empty()) return;
  if (transition.outcome == Outcome::kVoid && ++voids_ <= kVoidsMax) {
    pending_.clear();  // asked again
    return;
  }
  voids_ = 0;
  decided_.insert(decided_.end(), pending_.begin(), pending_.end());
  pending_.clear();
}

std::string StaticAgent::Save() const {
  StateWriter writer(name(), 1);
  writer.AddWord(preset_.empty() ? "-" : preset_);
  writer.AddInteger(voids_);
  for (const std::vector<std::string>* words : {&decided_, &pending_}) {
    writer.AddUnsigned(words->size());
    for (const std::string& word : *words) writer.AddWord(word);
  }
  return writer.Take();
}

absl::Status StaticAgent::Load(std::string_view state) {
  EBB_ASSIGN_OR_RETURN(StateReader reader, StateReader::Open(state, name(), 1));
  StaticAgent loaded;
  loaded.preset_ = reader.Word();
  if (loaded.preset_ == "-") loaded.preset_.clear();
  loaded.voids_ = static_cast<int>(reader.Count(kVoidsMax));
  for (std::vector<std::string>* words : {&loaded.decided_, &loaded.pending_}) {
    const size_t count = reader.Count(kDecidedMax);
    for (size_t i = 0; i < count; ++i) words->push_back(reader.Word());
  }
  EBB_RETURN_IF_ERROR(reader.Close());
  *this = std::move(loaded);
  return absl::OkStatus();
}

}  // namespace ebb::agents
