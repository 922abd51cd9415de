#include "api/cli/twin_fit_command.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>

#include "api/cli/progress.h"
#include "base/status.h"
#include "base/text_file.h"
#include "base/units.h"
#include "env/twin/fit/fit_target.h"
#include "env/twin/fit/nbd_cost.h"
#include "env/twin/fit/node_costs.h"
#include "env/twin/model_file.h"
#include "fmt/format.h"

namespace ebb::cli {
namespace {

constexpr const char* kFooter =
    "What is not measured keeps the value of --model, or of a named class. Devices are only read,\n"
    "unless they are files made for this or named a second time with --overwrite.\n"
    "A node to be, on two real devices; how fast they write stays that of the nearest class:\n"
    "  ebb twin fit --cache /dev/nvme0n1 --capacity /dev/sda --costs /var/tmp/fit --out node.toml\n"
    "An empty disk, writes as well. EVERYTHING ON IT IS LOST:\n"
    "  ebb twin fit --capacity /dev/sdb --overwrite /dev/sdb --out sdb.toml\n"
    "The disk below a folder, by a file that is made and removed:\n"
    "  ebb twin fit --capacity /data/probe.img --create 1G --out data.toml\n"
    "What NBD adds on a running node, added to a model:\n"
    "  ebb twin fit --model node.toml --nbd 'nbd+unix:///?socket=nbd.sock' --control control.sock "
    "\\\n"
    "      --out node2.toml\n"
    "Then:\n"
    "  ebb twin run --model node.toml --rate 10000 --read 0.7 --working-set 4G";

struct DeviceOrder {
  std::string path;
  std::string shape;
  bool asked() const { return !path.empty() || !shape.empty(); }
};

struct FitOrder {
  DeviceOrder cache;
  DeviceOrder capacity;
  std::vector<std::string> overwrite;
  std::string create;
  std::string costs_dir;
  std::string nbd_uri;
  std::string control_socket;
  std::string model_path;
  std::string out_path;
  bool replace = false;
  bool quick = false;
};

// "sata-ssd" or "sata-ssd:0.25".
absl::Status ReadShape(const std::string& text, twin::FitTarget& target) {
  const size_t colon = text.find(':');
  target.shape = text.substr(0, colon);
  if (colon == std::string::npos) return absl::OkStatus();
  const std::string speed = text.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(speed.data(), speed.data() + speed.size(), target.speed);
  if (error != std::errc() || end != speed.data() + speed.size()) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is no shape: NAME or NAME:SPEED, e.g. sata-ssd:0.25", text));
  }
  return absl::OkStatus();
}

absl::Status CheckOrder(const FitOrder& order) {
  if (!order.cache.asked() && !order.capacity.asked() && order.costs_dir.empty() &&
      order.nbd_uri.empty()) {
    return absl::InvalidArgumentError(
        "nothing to be measured: --cache, --capacity, --costs or --nbd (see --help)");
  }
  if (order.nbd_uri.empty() != order.control_socket.empty()) {
    return absl::InvalidArgumentError("--nbd and --control belong together: of one node");
  }
  for (const std::string& path : order.overwrite) {
    if (path != order.cache.path && path != order.capacity.path) {
      return absl::InvalidArgumentError(
          fmt::format("--overwrite {} is not what --cache or --capacity measures", path));
    }
  }
  std::error_code error;
  if (!order.replace && order.out_path != "-" && std::filesystem::exists(order.out_path, error)) {
    return absl::FailedPreconditionError(
        fmt::format("{} exists; --replace writes over it", order.out_path));
  }
  if (!order.costs_dir.empty() && std::filesystem::exists(order.costs_dir, error) &&
      !std::filesystem::is_empty(order.costs_dir, error)) {
    return absl::FailedPreconditionError(fmt::format(
        "{} is not an empty folder: --costs fills one and removes it", order.costs_dir));
  }
  return absl::OkStatus();
}

absl::Status FitOne(Session& session, const FitOrder& order, const DeviceOrder& device,
                    const char* role, std::string& comment,
                    std::optional<storage::ServiceParameters>& parameters) {
  twin::FitTarget target{.path = device.path};
  if (!device.shape.empty()) EBB_RETURN_IF_ERROR(ReadShape(device.shape, target));
  std::error_code error;
  if (!order.create.empty() && !device.path.empty()) {
    EBB_ASSIGN_OR_RETURN(target.create_bytes, ParseBytes(order.create));
  }
  target.overwrite = std::find(order.overwrite.begin(), order.overwrite.end(), device.path) !=
                     order.overwrite.end();
  twin::FittedDevice fitted;
  {
    Progress progress;
    twin::ProbeOptions options{.quick = order.quick};
    options.on_progress = [&](double share, std::string_view what) {
      progress.Show(share, fmt::format("{}: {}", role, what));
    };
    EBB_ASSIGN_OR_RETURN(fitted, MeasureAndFit(target, options));
  }
  parameters = fitted.fit.parameters;
  const std::string line = fmt::format(
      "{}: {}; fitted from class {}, error {:.1f} % in the middle, {:.1f} % at most ({}){}", role,
      fitted.description, fitted.fit.nearest_class, 100 * fitted.fit.error_median,
      100 * fitted.fit.error_max, fitted.fit.worst_figure,
      fitted.wrote ? "" : "; writes not measured: they are the class's");
  session.Note(line);
  session.Note(fmt::format("{:30} {:>14} {:>14} {:>10}", "", "device", "model", "error"));
  session.Note(twin::FitTable(fitted.measured, fitted.fit));
  comment += line + "\n";
  return absl::OkStatus();
}

absl::Status FitCosts(Session& session, const FitOrder& order, std::string& comment,
                      twin::NodeModel& node) {
  twin::NodeCostOptions options{.metadata_dir = order.costs_dir, .quick = order.quick};
  Progress progress;
  options.on_progress = [&](double share, std::string_view what) { progress.Show(share, what); };
  auto costs = twin::MeasureNodeCosts(options);
  std::error_code error;
  std::filesystem::remove_all(order.costs_dir, error);
  EBB_RETURN_IF_ERROR(costs.status());
  // The front end's part is not among them.
  costs->cpu.nbd_request = node.cpu.nbd_request;
  node.cpu = costs->cpu;
  node.metadata = costs->metadata;
  node.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  session.Note(fmt::format(
      "costs: a 4 KiB hit takes {:.1f} us, a write {:.1f} us, a commit {:.0f} us",
      (node.cpu.read_request + node.cpu.read_block) / 1e3,
      (node.cpu.write_request + node.cpu.write_block) / 1e3, node.metadata.commit_ns / 1e3));
  comment += "costs: measured on this machine, the metadata store in " + order.costs_dir + "\n";
  return absl::OkStatus();
}

absl::Status WriteModel(Session& session, const FitOrder& order, const std::string& text) {
  if (order.out_path == "-") {
    session.Print(text);
    return absl::OkStatus();
  }
  EBB_RETURN_IF_ERROR(WriteTextFile(order.out_path, text));
  session.Note(
      fmt::format("wrote {}; try: ebb twin run --model {}", order.out_path, order.out_path));
  return absl::OkStatus();
}

absl::Status RunFit(Session& session, const FitOrder& order) {
  EBB_RETURN_IF_ERROR(CheckOrder(order));
  double load = 0;
  if (getloadavg(&load, 1) == 1 && load > 0.5 * std::max(1U, std::thread::hardware_concurrency())) {
    session.Note(fmt::format(
        "note: the machine is busy (load average {:.1f}); times measured now are too long", load));
  }
  twin::NodeModel node;
  if (!order.model_path.empty()) {
    EBB_ASSIGN_OR_RETURN(node, twin::LoadNodeModel(order.model_path, node));
  }
  std::string comment = "Measured by `ebb twin fit`, for `ebb twin run|sweep --model`.\n";
  if (order.cache.asked()) {
    EBB_RETURN_IF_ERROR(FitOne(session, order, order.cache, "cache", comment, node.cache_fitted));
  }
  if (order.capacity.asked()) {
    EBB_RETURN_IF_ERROR(
        FitOne(session, order, order.capacity, "capacity", comment, node.capacity_fitted));
  }
  if (!order.costs_dir.empty()) EBB_RETURN_IF_ERROR(FitCosts(session, order, comment, node));
  if (!order.nbd_uri.empty()) {
    EBB_RETURN_IF_ERROR(twin::MeasureNbdCost(order.nbd_uri, order.control_socket, node));
    session.Note(fmt::format("NBD: {:.1f} us of the node's processor, {:.1f} us besides",
                             node.cpu.nbd_request / 1e3,
                             static_cast<double>(node.client_overhead_ns) / 1e3));
  }
  // Costs that nobody measured are not written: they are whatever the program's defaults are.
  const bool has_costs =
      !order.costs_dir.empty() || !order.nbd_uri.empty() || !order.model_path.empty();
  return WriteModel(session, order, twin::FormatNodeModel(node, comment, {.node = has_costs}));
}

}  // namespace

void AddTwinFitCommand(CLI::App& twin, Session& session) {
  auto order = std::make_shared<FitOrder>();
  CLI::App* fit =
      twin.add_subcommand("fit", "measure devices and a node's costs, for run and sweep --model");
  fit->footer(kFooter);
  CLI::Option* cache =
      fit->add_option("--cache", order->cache.path, "measure this as cache device");
  fit->add_option("--cache-shape", order->cache.shape,
                  "or a service model in memory, NAME or NAME:SPEED")
      ->excludes(cache);
  CLI::Option* capacity =
      fit->add_option("--capacity", order->capacity.path, "measure this as capacity device");
  fit->add_option("--capacity-shape", order->capacity.shape, "or a service model in memory")
      ->excludes(capacity);
  fit->add_option("--create", order->create,
                  "devices that do not exist are files of this size, removed again");
  fit->add_option("--overwrite", order->overwrite,
                  "measure writes on this device, too, DESTROYING what is on it: its path again");
  fit->add_option(
      "--costs", order->costs_dir,
      "measure processor and metadata costs; an empty folder, where the metadata will be");
  fit->add_option("--nbd", order->nbd_uri,
                  "measure what NBD adds on this running node (reads only)");
  fit->add_option("--control", order->control_socket, "the same node's control socket");
  fit->add_option("--model", order->model_path, "begin with this model")->check(CLI::ExistingFile);
  fit->add_option("--out", order->out_path, "file to be written; - is the standard output")
      ->required();
  fit->add_flag("--replace", order->replace, "write over an existing file");
  fit->add_flag("--quick", order->quick, "a quarter of the samples");
  fit->callback([&session, order] {
    session.chosen = [order](Session& chosen) { return RunFit(chosen, *order); };
  });
}

}  // namespace ebb::cli
