#include "experiments/storage_bench/fio.h"

#include "base/status.h"
#include "experiments/support/child_process.h"
#include "nlohmann/json.hpp"

namespace ebb::storage_bench {
namespace {

constexpr uint64_t kTimeoutMs = 180'000;

}  // namespace

absl::StatusOr<FioResult> ParseFioJson(std::string_view text) {
  try {
    // fio puts notes before its JSON.
    const size_t begin = text.find('{');
    if (begin == std::string_view::npos) return absl::InternalError("fio printed no JSON");
    const nlohmann::json job = nlohmann::json::parse(text.substr(begin)).at("jobs").at(0);
    if (const int error = job.at("error").get<int>(); error != 0) {
      return absl::InternalError("fio met errno " + std::to_string(error));
    }
    const char* kind = job.at("read").at("total_ios").get<double>() > 0 ? "read" : "write";
    const nlohmann::json& side = job.at(kind);
    FioResult result;
    result.ops = side.at("total_ios").get<double>();
    result.ops_per_s = side.at("iops").get<double>();
    result.bytes_per_s = side.at("bw_bytes").get<double>();
    if (result.ops <= 0) return absl::InternalError("fio did nothing");
    const nlohmann::json& percentile = side.at("clat_ns").at("percentile");
    result.p50_us = percentile.at("50.000000").get<double>() / 1e3;
    result.p99_us = percentile.at("99.000000").get<double>() / 1e3;
    return result;
  } catch (const nlohmann::json::exception& fault) {
    return absl::InternalError(std::string("fio's JSON: ") + fault.what());
  }
}

absl::StatusOr<FioResult> RunFio(std::vector<std::string> arguments,
                                 const std::string& scratch_dir) {
  std::vector<std::string> command = {"fio", "--name=bench", "--output-format=json",
                                      "--randrepeat=0", "--group_reporting"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  EBB_ASSIGN_OR_RETURN(const std::string text,
                       experiments::RunAndRead(command, scratch_dir, kTimeoutMs));
  return ParseFioJson(text);
}

void AddFioSamples(const std::string& series, const FioResult& result, Samples& samples) {
  samples.Add(series + ".ops_per_s", result.ops_per_s);
  samples.Add(series + ".p50_us", result.p50_us);
  samples.Add(series + ".p99_us", result.p99_us);
}

}  // namespace ebb::storage_bench
