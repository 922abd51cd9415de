// ebb-preset-sweep: one knob of one device class, each value beside the base, repeats interleaved.
//
//   ebb-preset-sweep --model disk-7200 --knob destage_batch_bytes --values 1048576,4194304,16777216
//       --base destage_watermark=60
//
// The method that the presets of storage-backend/knobs/presets.cc were found with: docs/presets.md.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "experiments/presets/mixed_load.h"
#include "fmt/format.h"

namespace ebb::presets {
namespace {

using storage::Setting;

struct Order {
  LoadOptions load;
  std::string knob;
  std::vector<int64_t> values;
  std::vector<std::string> base;
  int repeats = 3;
  double budget_seconds = 100;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::StatusOr<Setting> BaseSetting(const Order& order) {
  Setting setting;
  for (const std::string& text : order.base) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    const storage::KnobSpec* spec = storage::FindKnob(parts.first);
    int64_t value = 0;
    if (spec == nullptr || !absl::SimpleAtoi(parts.second, &value)) {
      return absl::InvalidArgumentError("not KNOB=INTEGER: " + text);
    }
    setting.Set(spec->id, value);
  }
  return setting;
}

absl::Status Sweep(const Order& order) {
  const storage::KnobSpec* spec = storage::FindKnob(order.knob);
  if (spec == nullptr) return absl::InvalidArgumentError("no knob is named " + order.knob);
  const absl::StatusOr<Setting> base = BaseSetting(order);
  if (!base.ok()) return base.status();
  std::vector<std::vector<LoadResult>> results(order.values.size());
  const auto begin = std::chrono::steady_clock::now();
  for (int repeat = 0; repeat < order.repeats; ++repeat) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    // One more repeat takes as long as those before did.
    if (repeat > 0 && spent.count() * (repeat + 1) / repeat > order.budget_seconds) break;
    for (size_t i = 0; i < order.values.size(); ++i) {
      Setting setting = *base;
      setting.Set(spec->id, order.values[i]);
      LoadOptions load = order.load;
      load.seed = static_cast<uint64_t>(repeat) + 1;
      const absl::StatusOr<LoadResult> result = RunMixedLoad(setting, load);
      if (!result.ok()) return result.status();
      results[i].push_back(*result);
    }
  }
  for (size_t i = 0; i < order.values.size(); ++i) {
    const auto median = [&](double LoadResult::*field) {
      std::vector<double> values;
      for (const LoadResult& result : results[i]) values.push_back(result.*field);
      return Median(values);
    };
    fmt::print(
        "{} {} {:>10}: score {:7.0f} us, read {:7.0f} p99 {:8.0f}, write {:7.0f} p99 {:8.0f}, "
        "{:6.0f} ops/s, {} repeats\n",
        order.load.capacity_model, spec->name, storage::FormatKnobValue(*spec, order.values[i]),
        median(&LoadResult::score_us), median(&LoadResult::read_mean_us),
        median(&LoadResult::read_p99_us), median(&LoadResult::write_mean_us),
        median(&LoadResult::write_p99_us), median(&LoadResult::ops_per_s), results[i].size());
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace ebb::presets

int main(int argc, char** argv) {
  ebb::presets::Order order;
  CLI::App app("One knob on one device class: which value serves a balanced load best?");
  app.add_option("--model", order.load.capacity_model, "service model of the capacity devices");
  app.add_option("--scale", order.load.scale, "devices are that many times faster");
  app.add_option("--seconds", order.load.seconds, "of each run");
  app.add_option("--knob", order.knob)->required();
  app.add_option("--values", order.values)->required()->delimiter(',');
  app.add_option("--base", order.base, "other knobs, KNOB=INTEGER")->delimiter(',');
  app.add_option("--budget-seconds", order.budget_seconds, "no repeat begins that would end later");
  app.add_option("--repeats", order.repeats, "of each value, interleaved; medians are printed");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = ebb::presets::Sweep(order);
  if (!status.ok()) fmt::print(stderr, "ebb-preset-sweep: {}\n", status.ToString());
  return status.ok() ? 0 : 1;
}
