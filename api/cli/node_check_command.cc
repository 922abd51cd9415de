#include "api/cli/node_check_command.h"

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/check/node_check.h"
#include "storage-backend/control/node_config.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;
using storage::CheckReport;

struct CheckOrder {
  std::string dir;
  std::string config;
  bool data = false;
};

void PrintJson(const Session& session, const CheckReport& report, bool data) {
  Json faults = Json::array();
  for (const CheckReport::Fault& fault : report.faults) {
    faults.push_back({{"area", fault.area}, {"text", fault.text}});
  }
  const Json json = {{"clean", report.fault_count == 0},
                     {"uuid", report.uuid},
                     {"volume_bytes", report.volume_bytes},
                     {"dirty_bytes", report.dirty_bytes},
                     {"closed_cleanly", report.closed_cleanly},
                     {"data_checked", data},
                     {"verified_blocks", report.verified_blocks},
                     {"fault_count", report.fault_count},
                     {"faults", std::move(faults)},
                     {"skipped", report.skipped}};
  session.Print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void PrintText(const Session& session, const CheckReport& report, bool data) {
  if (!report.uuid.empty()) {
    session.Print(fmt::format("node {}, volume of {}, {} only in the cache, {}\n", report.uuid,
                              FormatBytes(report.volume_bytes), FormatBytes(report.dirty_bytes),
                              report.closed_cleanly ? "closed cleanly" : "not closed cleanly"));
  }
  for (const CheckReport::Fault& fault : report.faults) {
    session.Print(fmt::format("{}: {}\n", fault.area, fault.text));
  }
  if (report.fault_count > report.faults.size()) {
    session.Print(fmt::format("and {} more\n", report.fault_count - report.faults.size()));
  }
  for (const std::string& skipped : report.skipped) {
    session.Print(fmt::format("not checked: {}\n", skipped));
  }
  if (data) session.Print(fmt::format("{} blocks read\n", report.verified_blocks));
  if (report.fault_count == 0) {
    session.Print(data ? "no fault\n" : "no fault; the blocks themselves were not read: --data\n");
  }
}

absl::Status Check(Session& session, const CheckOrder& order) {
  if (order.dir.empty() && order.config.empty()) {
    return absl::InvalidArgumentError("say which node: --dir DIR or --config FILE");
  }
  // Whatever keeps us from looking ends with exit code 2, as wrong arguments do.
  const auto could_not = [](const absl::Status& status) {
    return absl::InvalidArgumentError("could not check: " + std::string(status.message()));
  };
  const auto config =
      storage::LoadNodeConfig(order.dir.empty() ? order.config : order.dir + "/node.toml");
  if (!config.ok()) return could_not(config.status());
  const bool terminal = isatty(STDERR_FILENO) != 0;
  storage::CheckOptions options;
  options.data = order.data;
  if (terminal) {
    options.progress = [](double share) {
      fmt::print(stderr, "\r\033[K{:.0f} % of the blocks", share * 100);
      std::fflush(stderr);
    };
  }
  const auto report = storage::CheckNode(*config, options);
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (!report.ok()) return could_not(report.status());
  if (session.format == Format::kJson) {
    PrintJson(session, *report, order.data);
  } else {
    PrintText(session, *report, order.data);
  }
  if (report->fault_count == 0) return absl::OkStatus();
  return absl::DataLossError(fmt::format("{} faults found", report->fault_count));
}

}  // namespace

void AddCheck(CLI::App& node, Session& session) {
  auto order = std::make_shared<CheckOrder>();
  CLI::App* check =
      node.add_subcommand("check", "look a stopped node over, without changing anything");
  check->footer(
      "Superblocks, the chain of the cache log and the map of the capacity tier; with --data the\n"
      "checksum of every block as well. Exit code 0: clean, 1: faults found, 2: could not check\n"
      "(the node runs, a device is missing ...).");
  auto* dir = check->add_option("--dir", order->dir, "the node's folder");
  check->add_option("--config", order->config, "the node's TOML file")->excludes(dir);
  check->add_flag("--data", order->data, "read and verify every block too");
  check->callback(
      [order, &session] { session.chosen = [order](Session& s) { return Check(s, *order); }; });
}

}  // namespace ebb::cli
