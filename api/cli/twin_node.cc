#include "api/cli/twin_node.h"

#include <algorithm>
#include <atomic>

#include <CLI/CLI.hpp>

#include "api/cli/progress.h"
#include "api/cli/table.h"
#include "base/interrupt.h"
#include "base/status.h"
#include "base/units.h"
#include "env/twin/calibration.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/json_rpc_client.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

double PerSecond(const env::WindowMetrics& m, uint64_t count) {
  return static_cast<double>(count) / m.seconds;
}

// One line of the comparison.
struct Figure {
  const char* name;
  double (*of)(const twin::WindowResult& window);
  std::string (*text)(double value);
};

std::string Rate(double value) { return fmt::format("{:.0f}", value); }
std::string Time(double ns) {
  return ns > 0 ? FormatDurationNs(static_cast<uint64_t>(ns)) : std::string("-");
}
std::string Share(double value) { return fmt::format("{:.1f} %", 100 * value); }
std::string Megabytes(double value) { return fmt::format("{:.1f} MB/s", value / 1e6); }
std::string Number(double value) { return fmt::format("{:.2f}", value); }

using twin::WindowResult;

constexpr Figure kFigures[] = {
    {"reads/s", [](const WindowResult& w) { return PerSecond(w.metrics, w.metrics.read.ops); },
     Rate},
    {"read p50", [](const WindowResult& w) { return w.metrics.read.p50_ns; }, Time},
    {"read p99", [](const WindowResult& w) { return w.metrics.read.p99_ns; }, Time},
    {"writes/s", [](const WindowResult& w) { return PerSecond(w.metrics, w.metrics.write.ops); },
     Rate},
    {"write p50", [](const WindowResult& w) { return w.metrics.write.p50_ns; }, Time},
    {"write p99", [](const WindowResult& w) { return w.metrics.write.p99_ns; }, Time},
    {"flushes/s", [](const WindowResult& w) { return PerSecond(w.metrics, w.metrics.flush.ops); },
     Rate},
    {"flush p50", [](const WindowResult& w) { return w.metrics.flush.p50_ns; }, Time},
    {"in flight", [](const WindowResult& w) { return w.metrics.mean_in_flight; }, Number},
    {"read hits", [](const WindowResult& w) { return w.metrics.read_hit_share; }, Share},
    {"log fill", [](const WindowResult& w) { return w.log_fill; }, Share},
    {"destage",
     [](const WindowResult& w) { return PerSecond(w.metrics, w.metrics.destaged_bytes); },
     Megabytes},
    {"cores busy", [](const WindowResult& w) { return w.metrics.cpu_seconds / w.metrics.seconds; },
     Number},
};

std::string Difference(double from, double to) {
  if (from == 0) return to == 0 ? "" : "new";
  return fmt::format("{:+.1f} %", 100 * (to - from) / from);
}

twin::WindowResult MeasuredOf(const twin::LiveNode& live) {
  twin::WindowResult measured;
  measured.metrics = live.measured;
  measured.log_fill = live.measured.dirty_share;
  return measured;
}

}  // namespace

void AddWatchOptions(CLI::App* command, WatchOrder& order,
                     const std::vector<std::string>& allowed) {
  for (const CLI::Option* other : command->get_options()) {
    const bool both = std::find(allowed.begin(), allowed.end(), other->get_name()) != allowed.end();
    if (!both) order.others.push_back(other);
  }
  CLI::Option* node = command->add_option(
      "--node", order.socket, "a running node's control socket: its load, its setting, its twin");
  node->group("Live node");
  command
      ->add_option("--minutes", order.minutes,
                   "of its load: what it remembers, and then what it is asked")
      ->check(CLI::Range(0.01, 15.0))
      ->capture_default_str()
      ->needs(node)
      ->group("Live node");
  command->add_option("--listen", order.listen_seconds, "measure it for so many seconds at least")
      ->check(CLI::Range(0.5, 900.0))
      ->capture_default_str()
      ->needs(node)
      ->group("Live node");
}

absl::StatusOr<twin::LiveNode> Watch(Session& session, const WatchOrder& order) {
  for (const CLI::Option* other : order.others) {
    if (other->count() == 0) continue;
    return absl::InvalidArgumentError(
        fmt::format("--node says what the node and its load are: leave out {}", other->get_name()));
  }
  const std::atomic<bool>& stop = CatchInterrupts();
  storage::JsonRpcClient client(order.socket);
  absl::StatusOr<twin::LiveNode> live;
  {
    Progress progress;
    live = twin::WatchNode(client, {.minutes = order.minutes,
                                    .listen_seconds = order.listen_seconds,
                                    .stop = &stop,
                                    .on_progress = [&progress](double share, size_t requests) {
                                      progress.Show(share, fmt::format("{} requests", requests));
                                    }});
  }
  EBB_RETURN_IF_ERROR(live.status());
  session.Note(fmt::format(
      "{}: {:.0f} s of its load ({} of its regions, {} requests lost), {:.0f} s measured; {}",
      live->name, live->seconds(),
      live->load.time_divisor() == 1 ? "all" : fmt::format("1/{}", live->load.time_divisor()),
      live->dropped, live->measured.seconds,
      live->closed_loop_clients == 0
          ? "clients keep their pace"
          : fmt::format("{} clients wait for answers", live->closed_loop_clients)));
  for (const std::string& note : live->notes) session.Note(note);
  return live;
}

absl::StatusOr<twin::WindowResult> PredictNode(const twin::SimulatorConfig& config,
                                               const twin::RequestStream& load,
                                               const twin::LiveNode& live) {
  EBB_ASSIGN_OR_RETURN(const auto simulator, twin::Simulator::Make(config, load));
  simulator->WarmUp(2);
  const double pass_seconds = static_cast<double>(load.duration_ns()) * load.time_divisor() / 1e9;
  const double measured_seconds = pass_seconds * live.measured.seconds / live.seconds();
  simulator->RunWindow(2 * pass_seconds - measured_seconds);
  return simulator->RunWindow(measured_seconds);
}

absl::StatusOr<twin::NodeModel> CalibratedNode(const Session& session,
                                               const twin::SimulatorConfig& config,
                                               const twin::RequestStream& load,
                                               const twin::LiveNode& live) {
  EBB_ASSIGN_OR_RETURN(
      twin::NodeModel node,
      twin::CalibrateCosts(config.node, live.measured,
                           [&](const twin::NodeModel& tried) -> absl::StatusOr<env::WindowMetrics> {
                             twin::SimulatorConfig one = config;
                             one.node = tried;
                             EBB_ASSIGN_OR_RETURN(const twin::WindowResult window,
                                                  PredictNode(one, load, live));
                             return window.metrics;
                           }));
  const auto factor = [&](double twin::CpuCosts::*cost) {
    return config.node.cpu.*cost > 0 ? node.cpu.*cost / (config.node.cpu.*cost) : 1;
  };
  session.Note(
      fmt::format("processor costs by what the node shows now: reads x {:.2f}, writes x {:.2f}, "
                  "groups x {:.2f}",
                  factor(&twin::CpuCosts::read_block), factor(&twin::CpuCosts::write_block),
                  factor(&twin::CpuCosts::group_close)));
  return node;
}

Json ToJson(const twin::WindowResult& window) {
  const env::WindowMetrics& m = window.metrics;
  const auto op = [&](const env::OpWindow& one) {
    return Json{{"ops_per_s", static_cast<double>(one.ops) / m.seconds},
                {"p50_us", one.p50_ns / 1e3},
                {"p99_us", one.p99_ns / 1e3},
                {"errors", one.errors}};
  };
  return {{"seconds", m.seconds},
          {"read", op(m.read)},
          {"write", op(m.write)},
          {"flush", op(m.flush)},
          {"client_p99_us", window.client.QuantileNs(0.99) / 1e3},
          {"log_fill", window.log_fill},
          {"read_hit_share", m.read_hit_share},
          {"destaged_mb_per_s", static_cast<double>(m.destaged_bytes) / m.seconds / 1e6},
          {"throttle_seconds", m.throttle_seconds},
          {"mean_in_flight", m.mean_in_flight},
          {"cpu_seconds", m.cpu_seconds},
          {"late_seconds", static_cast<double>(window.late_ns) / 1e9}};
}

void PrintComparison(const Session& session, const Comparison& comparison) {
  const twin::WindowResult node = MeasuredOf(comparison.live);
  std::vector<std::string> titles = {"", "node now", "its twin", "error"};
  if (comparison.changed) titles.insert(titles.end(), {"twin with --set", "effect"});
  Table table(std::move(titles));
  for (const Figure& figure : kFigures) {
    const double measured = figure.of(node);
    const double predicted = figure.of(comparison.as_it_is);
    std::vector<std::string> row = {figure.name, figure.text(measured), figure.text(predicted),
                                    Difference(measured, predicted)};
    if (comparison.changed) {
      const double changed = figure.of(*comparison.changed);
      row.insert(row.end(), {figure.text(changed), Difference(predicted, changed)});
    }
    table.Add(std::move(row));
  }
  table.Print(session);
}

Json ToJson(const Comparison& comparison) {
  const twin::LiveNode& live = comparison.live;
  return {{"node", live.name},
          {"load_seconds", live.seconds()},
          {"sampled_one_in", live.load.time_divisor()},
          {"lost_requests", live.dropped},
          {"closed_loop_clients", live.closed_loop_clients},
          {"notes", live.notes},
          {"measured", ToJson(MeasuredOf(live))},
          {"twin", ToJson(comparison.as_it_is)},
          {"changed", comparison.changed ? ToJson(*comparison.changed) : Json(nullptr)}};
}

}  // namespace ebb::cli
