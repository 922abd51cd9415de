#include "engine/uplift/uplift_ledger.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ebb::engine {
namespace {

using Json = nlohmann::json;

constexpr double kMsPerHour = 3600e3;

// The 97.5 % point of Student's t (Cornish-Fisher; within 0.3 % from four degrees on).
double StudentQuantile975(double freedom) {
  const double z = 1.959964;
  const double z3 = z * z * z;
  const double z5 = z3 * z * z;
  const double z7 = z5 * z * z;
  return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * freedom * freedom * freedom);
}

// How much wider the variance of the mean is because neighbours are alike. A correlation that
// chance explains is none: to widen for it would make every interval too wide.
double NeighbourInflation(std::span<const UpliftBlock> blocks, const std::vector<double>& errors) {
  double products = 0;
  double squares = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    squares += blocks[i].weight * errors[i] * errors[i];
    if (i == 0) continue;
    products += std::sqrt(blocks[i].weight * blocks[i - 1].weight) * errors[i] * errors[i - 1];
  }
  if (!(squares > 0)) return 1;
  const auto count = static_cast<double>(errors.size());
  const double alike = products / squares + 1 / count;
  if (alike < 2 / std::sqrt(count)) return 1;
  const double bounded = std::min(alike, 0.9);
  return (1 + bounded) / (1 - bounded);
}

Effect EstimateUplift(std::span<const UpliftBlock> blocks, const Goal& goal) {
  std::vector<double> errors;
  double weights = 0;
  double mean = 0;
  for (const UpliftBlock& block : blocks) {
    errors.push_back(block.LogUplift(goal));
    weights += block.weight;
    mean += block.weight * errors.back();
  }
  mean /= weights;
  double squares = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    errors[i] -= mean;
    squares += blocks[i].weight * errors[i] * errors[i];
  }
  const double freedom = static_cast<double>(blocks.size()) - 1;
  const double variance = squares / freedom / weights * NeighbourInflation(blocks, errors);
  const double half = StudentQuantile975(freedom) * std::sqrt(variance);
  return {std::expm1(mean), std::expm1(mean - half), std::expm1(mean + half)};
}

UpliftSpan SpanOf(std::span<const UpliftBlock> blocks, const Goal& goal) {
  UpliftSpan span;
  for (const UpliftBlock& block : blocks) {
    span.blocks += static_cast<uint64_t>(block.weight);
    span.long_blocks += block.long_blocks;
    span.default_windows += block.default_windows;
    span.tuned_windows += block.tuned_windows;
  }
  if (!blocks.empty()) {
    span.from_ms = blocks.front().from_ms;
    span.to_ms = blocks.back().to_ms;
  }
  if (blocks.size() < UpliftLedger::kBlocksMin) {
    span.missing = fmt::format("not enough holdback yet: {} of {} blocks", blocks.size(),
                               UpliftLedger::kBlocksMin);
  } else {
    span.effect = EstimateUplift(blocks, goal);
  }
  return span;
}

// Neighbours with the same kinds of requests become their mean.
bool Merge(UpliftBlock& into, const UpliftBlock& next) {
  if (into.has_read != next.has_read || into.has_write != next.has_write) return false;
  const double share = next.weight / (into.weight + next.weight);
  for (size_t k = 0; k < kComponentCount; ++k) {
    into.log_ratio[k] += share * (next.log_ratio[k] - into.log_ratio[k]);
  }
  into.read_share += share * (next.read_share - into.read_share);
  into.to_ms = next.to_ms;
  into.weight += next.weight;
  into.long_blocks += next.long_blocks;
  into.default_windows += next.default_windows;
  into.tuned_windows += next.tuned_windows;
  return true;
}

Json BlockJson(const UpliftBlock& block) {
  return {{"from_ms", block.from_ms},
          {"to_ms", block.to_ms},
          {"weight", block.weight},
          {"long_blocks", block.long_blocks},
          {"default_windows", block.default_windows},
          {"tuned_windows", block.tuned_windows},
          {"log_ratio", block.log_ratio},
          {"has_read", block.has_read},
          {"has_write", block.has_write},
          {"read_share", block.read_share}};
}

UpliftBlock BlockFrom(const Json& json) {
  UpliftBlock block;
  block.from_ms = json.at("from_ms").get<int64_t>();
  block.to_ms = json.at("to_ms").get<int64_t>();
  block.weight = json.at("weight").get<double>();
  block.long_blocks = json.at("long_blocks").get<uint32_t>();
  block.default_windows = json.at("default_windows").get<uint64_t>();
  block.tuned_windows = json.at("tuned_windows").get<uint64_t>();
  block.log_ratio = json.at("log_ratio").get<std::array<double, kComponentCount>>();
  block.has_read = json.at("has_read").get<bool>();
  block.has_write = json.at("has_write").get<bool>();
  block.read_share = json.at("read_share").get<double>();
  return block;
}

}  // namespace

std::string BlockText(const UpliftBlock& block) { return BlockJson(block).dump(); }

void UpliftLedger::Add(const UpliftBlock& block) {
  entries_.push_back(block);
  if (entries_.size() <= kEntriesMax) return;
  // The older half; the newer one stays as it is for "the last hours".
  std::vector<UpliftBlock> merged;
  const size_t half = entries_.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const bool second = i % 2 == 1;
    if (!second || !Merge(merged.back(), entries_[i])) merged.push_back(entries_[i]);
  }
  merged.insert(merged.end(), entries_.begin() + static_cast<ptrdiff_t>(half), entries_.end());
  entries_ = std::move(merged);
}

void UpliftLedger::NoteDropped(const std::string& why) {
  ++dropped_;
  last_dropped_ = why;
}

UpliftReport UpliftLedger::Report(const Goal& goal, int64_t now_ms, uint32_t recent_hours) const {
  UpliftReport report;
  report.since_attach = SpanOf(entries_, goal);
  const int64_t since_ms = now_ms - static_cast<int64_t>(kMsPerHour * recent_hours);
  const auto first = std::find_if(entries_.begin(), entries_.end(), [&](const UpliftBlock& block) {
    return block.from_ms >= since_ms;
  });
  report.recent = SpanOf(std::span(first, entries_.end()), goal);
  report.recent_hours = recent_hours;
  report.dropped_blocks = dropped_;
  report.last_dropped = last_dropped_;
  return report;
}

std::string UpliftLedger::Save() const {
  Json blocks = Json::array();
  for (const UpliftBlock& block : entries_) blocks.push_back(BlockJson(block));
  const Json json{
      {"format", 1}, {"blocks", blocks}, {"dropped", dropped_}, {"last_dropped", last_dropped_}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status UpliftLedger::Load(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    std::vector<UpliftBlock> entries;
    for (const Json& each : json.at("blocks")) entries.push_back(BlockFrom(each));
    dropped_ = json.at("dropped").get<uint64_t>();
    last_dropped_ = json.at("last_dropped").get<std::string>();
    entries_ = std::move(entries);
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::DataLossError(std::string("the uplift's blocks cannot be read: ") + error.what());
  }
}

}  // namespace ebb::engine
