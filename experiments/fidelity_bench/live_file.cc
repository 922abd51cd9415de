#include "experiments/fidelity_bench/live_file.h"

#include <fstream>

#include "base/status.h"
#include "base/text_file.h"
#include "env/twin/model_file.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::fidelity_bench {
namespace {

using Json = nlohmann::json;

Json ToJson(const env::OpWindow& op) {
  return {{"ops", op.ops},       {"bytes", op.bytes},   {"errors", op.errors},
          {"p50_ns", op.p50_ns}, {"p99_ns", op.p99_ns}, {"mean_ns", op.mean_ns}};
}

env::OpWindow OpFromJson(const Json& json) {
  env::OpWindow op;
  op.ops = json.at("ops");
  op.bytes = json.at("bytes");
  op.errors = json.at("errors");
  op.p50_ns = json.at("p50_ns");
  op.p99_ns = json.at("p99_ns");
  op.mean_ns = json.at("mean_ns");
  return op;
}

Json ToJson(const Outcome& outcome) {
  const env::WindowMetrics& m = outcome.metrics;
  return {{"seconds", m.seconds},
          {"read", ToJson(m.read)},
          {"write", ToJson(m.write)},
          {"flush", ToJson(m.flush)},
          {"read_hit_share", m.read_hit_share},
          {"destaged_bytes", m.destaged_bytes},
          {"throttle_seconds", m.throttle_seconds},
          {"cpu_seconds", m.cpu_seconds},
          {"log_fill", outcome.log_fill},
          {"bytes_per_s", outcome.bytes_per_s},
          {"dram_share", outcome.dram_share},
          {"cache_share", outcome.cache_share},
          {"destage_batches", outcome.destage_batches},
          {"coalesced_blocks", outcome.coalesced_blocks},
          {"late_ns", outcome.late_ns}};
}

Outcome OutcomeFromJson(const Json& json) {
  Outcome outcome;
  env::WindowMetrics& m = outcome.metrics;
  m.seconds = json.at("seconds");
  m.read = OpFromJson(json.at("read"));
  m.write = OpFromJson(json.at("write"));
  m.flush = OpFromJson(json.at("flush"));
  m.read_hit_share = json.at("read_hit_share");
  m.destaged_bytes = json.at("destaged_bytes");
  m.throttle_seconds = json.at("throttle_seconds");
  m.cpu_seconds = json.at("cpu_seconds");
  outcome.log_fill = json.at("log_fill");
  outcome.bytes_per_s = json.at("bytes_per_s");
  outcome.dram_share = json.at("dram_share");
  outcome.cache_share = json.at("cache_share");
  outcome.destage_batches = json.at("destage_batches");
  outcome.coalesced_blocks = json.at("coalesced_blocks");
  outcome.late_ns = json.at("late_ns");
  return outcome;
}

Json ToJson(const WorkloadCells& workload, const twin::NodeModel& model) {
  Json cells = Json::array();
  for (const Cell& cell : workload.cells) {
    Json live = Json::array();
    for (const Outcome& outcome : cell.live) live.push_back(ToJson(outcome));
    cells.push_back({{"setting", cell.setting}, {"live", std::move(live)}});
  }
  return {{"name", workload.name},
          {"recorded", workload.recorded},
          {"offered_bytes_per_s", workload.offered_bytes_per_s},
          {"model", twin::FormatNodeModel(model, "")},
          {"cells", std::move(cells)}};
}

absl::Status ReadWorkload(const Json& json, const std::string& path, LiveResults& results) {
  WorkloadCells workload{.name = json.at("name"),
                         .recorded = json.at("recorded"),
                         .offered_bytes_per_s = json.at("offered_bytes_per_s")};
  for (const Json& one : json.at("cells")) {
    Cell cell{.setting = one.at("setting")};
    for (const Json& outcome : one.at("live")) cell.live.push_back(OutcomeFromJson(outcome));
    workload.cells.push_back(std::move(cell));
  }
  EBB_ASSIGN_OR_RETURN(twin::NodeModel model,
                       twin::ParseNodeModel(json.at("model").get<std::string>(), path, {}));
  results.models.push_back(std::move(model));
  results.workloads.push_back(std::move(workload));
  return absl::OkStatus();
}

}  // namespace

absl::Status SaveLive(const std::string& path, const LiveResults& results) {
  Json workloads = Json::array();
  for (size_t i = 0; i < results.workloads.size(); ++i) {
    workloads.push_back(ToJson(results.workloads[i], results.models[i]));
  }
  return WriteTextFile(path, Json{{"seconds", results.seconds},
                                  {"settle_seconds", results.times.settle_seconds},
                                  {"measure_seconds", results.times.measure_seconds},
                                  {"warm_up_passes", results.times.warm_up_passes},
                                  {"workloads", std::move(workloads)}}
                                     .dump(1) +
                                 "\n");
}

absl::StatusOr<LiveResults> LoadLive(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(fmt::format("cannot read {}", path));
  try {
    const Json json = Json::parse(file);
    LiveResults results;
    results.seconds = json.at("seconds");
    results.times = {.settle_seconds = json.at("settle_seconds"),
                     .measure_seconds = json.at("measure_seconds"),
                     .warm_up_passes = json.at("warm_up_passes")};
    for (const Json& one : json.at("workloads")) {
      EBB_RETURN_IF_ERROR(ReadWorkload(one, path, results));
    }
    return results;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        fmt::format("{} holds no live results: {}", path, error.what()));
  }
}

}  // namespace ebb::fidelity_bench
