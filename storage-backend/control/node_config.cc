#include "storage-backend/control/node_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include <toml++/toml.h>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/control/durable_file.h"
#include "storage-backend/control/suggest.h"
#include "storage-backend/device/service_model.h"
#include "storage-backend/knobs/presets.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kSectorBytes = 4096;
constexpr int64_t kThreadsMax = 256;
constexpr double kShapeScaleMin = 0.01;
constexpr double kShapeScaleMax = 1000;

// Where faults of one file are gathered.
struct Faults {
  std::string file_name;
  std::vector<std::string> list;

  void Add(const toml::node* node, std::string_view text) {
    if (node == nullptr) {
      list.push_back(fmt::format("{}: {}", file_name, text));
    } else {
      list.push_back(fmt::format("{}:{}:{}: {}", file_name, node->source().begin.line,
                                 node->source().begin.column, text));
    }
  }
};

// Reads the keys of one table and refuses those that nobody asked for.
class Section {
 public:
  Section(const toml::table& table, std::string where, Faults& faults)
      : table_(table), where_(std::move(where)), faults_(faults) {}

  const toml::node* Find(std::string_view key) {
    known_.push_back(key);
    return table_.get(key);
  }

  std::optional<std::string> Text(std::string_view key) {
    const toml::node* node = Find(key);
    if (node == nullptr) return std::nullopt;
    const std::optional<std::string> text = node->value_exact<std::string>();
    if (!text || text->empty()) {
      faults_.Add(node, fmt::format("{} must be a text in quotes", Path(key)));
      return std::nullopt;
    }
    return text;
  }

  std::string RequiredText(std::string_view key) {
    if (table_.get(key) == nullptr) Missing(key);
    return Text(key).value_or("");
  }

  std::optional<uint64_t> Bytes(std::string_view key) {
    const toml::node* node = Find(key);
    if (node == nullptr) return std::nullopt;
    return BytesOf(*node, Path(key));
  }

  std::optional<uint64_t> BytesOf(const toml::node& node, const std::string& path) {
    if (const auto number = node.value_exact<int64_t>(); number && *number >= 0) {
      return static_cast<uint64_t>(*number);
    }
    const auto text = node.value_exact<std::string>();
    const absl::StatusOr<uint64_t> bytes =
        text ? ParseBytes(*text) : absl::InvalidArgumentError("it is neither");
    if (bytes.ok()) return *bytes;
    faults_.Add(&node, fmt::format(R"({} must be a size as "8GiB" or a number of bytes)", path));
    return std::nullopt;
  }

  std::optional<int64_t> Integer(std::string_view key, int64_t min, int64_t max) {
    const toml::node* node = Find(key);
    if (node == nullptr) return std::nullopt;
    const std::optional<int64_t> number = node->value_exact<int64_t>();
    if (!number || *number < min || *number > max) {
      faults_.Add(node, fmt::format("{} must be an integer from {} to {}", Path(key), min, max));
      return std::nullopt;
    }
    return number;
  }

  std::optional<double> Number(std::string_view key, double min, double max) {
    const toml::node* node = Find(key);
    if (node == nullptr) return std::nullopt;
    const std::optional<double> number =
        node->is_number() ? node->value<double>() : std::optional<double>();
    if (!number || !(*number >= min && *number <= max)) {
      faults_.Add(node, fmt::format("{} must be a number from {} to {}", Path(key), min, max));
      return std::nullopt;
    }
    return number;
  }

  void Missing(std::string_view key) {
    faults_.Add(where_.empty() ? nullptr : &table_, fmt::format("{} is missing", Path(key)));
  }
  void Fault(std::string_view key, std::string_view must) {
    faults_.Add(table_.get(key), fmt::format("{} {}", Path(key), must));
  }

  void RefuseOthers() {
    for (const auto& [key, node] : table_) {
      if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
      faults_.Add(&node, fmt::format("there is no key {}{}", Path(key.str()),
                                     DidYouMean(key.str(), known_)));
    }
  }

  std::string Path(std::string_view key) const {
    return where_.empty() ? std::string(key) : fmt::format("{}.{}", where_, key);
  }

 private:
  const toml::table& table_;
  const std::string where_;
  Faults& faults_;
  std::vector<std::string_view> known_;
};

std::string Resolve(const std::string& path, const std::string& folder) {
  if (path.empty()) return path;
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

DeviceConfig ReadDevice(const toml::table& table, const std::string& where,
                        const std::string& folder, Faults& faults) {
  Section section(table, where, faults);
  DeviceConfig device;
  device.path = Resolve(section.RequiredText("path"), folder);
  device.create_bytes = section.Bytes("size").value_or(0);
  if (device.create_bytes % kSectorBytes != 0) section.Fault("size", "must be whole 4 KiB blocks");
  device.shape = section.Text("shape").value_or("");
  const std::vector<std::string> shapes = ServiceModelNames();
  if (!device.shape.empty() &&
      std::find(shapes.begin(), shapes.end(), device.shape) == shapes.end()) {
    section.Fault("shape", fmt::format("must be one of {}{}", fmt::join(shapes, ", "),
                                       DidYouMean(device.shape, {shapes.begin(), shapes.end()})));
  }
  device.shape_scale = section.Number("shape_scale", kShapeScaleMin, kShapeScaleMax).value_or(1);
  section.RefuseOthers();
  return device;
}

NbdConfig ReadNbd(const toml::table& table, const std::string& folder, Faults& faults) {
  Section section(table, "nbd", faults);
  NbdConfig nbd;
  nbd.socket = Resolve(section.Text("socket").value_or(""), folder);
  const std::optional<int64_t> port =
      section.Integer("port", 1, std::numeric_limits<uint16_t>::max());
  const std::optional<std::string> address = section.Text("address");
  nbd.threads = static_cast<int>(section.Integer("threads", 1, kThreadsMax).value_or(16));
  if (!nbd.socket.empty() && (port || address)) {
    section.Fault("socket", "excludes nbd.port and nbd.address: choose one way to listen");
  }
  if (nbd.socket.empty()) {
    nbd.address = address.value_or("127.0.0.1");
    nbd.port = static_cast<uint16_t>(port.value_or(kNbdPortDefault));
  }
  section.RefuseOthers();
  return nbd;
}

void ReadKnob(const KnobSpec& spec, const toml::node& node, Section& section, Faults& faults,
              Setting& setting) {
  const std::string path = fmt::format("setting.{}", spec.name);
  if (spec.kind == KnobKind::kChoice) {
    const auto word = node.value_exact<std::string>();
    const std::optional<int64_t> choice = word ? ParseChoice(spec, *word) : std::nullopt;
    if (choice) {
      setting.Set(spec.id, *choice);
    } else {
      faults.Add(&node,
                 fmt::format(R"({} must be one of "{}")", path, fmt::join(spec.choices, "\", \"")));
    }
  } else if (spec.kind == KnobKind::kBytes) {
    if (const auto bytes = section.BytesOf(node, path)) {
      setting.Set(spec.id, static_cast<int64_t>(
                               std::min<uint64_t>(*bytes, std::numeric_limits<int64_t>::max())));
    }
  } else if (const auto number = node.value_exact<int64_t>()) {
    setting.Set(spec.id, *number);
  } else {
    faults.Add(&node, fmt::format("{} must be an integer", path));
  }
}

// On top of `setting`, the preset of the device class.
Setting ReadSetting(const toml::table& table, Setting setting, Faults& faults) {
  Section section(table, "setting", faults);
  for (const KnobSpec& spec : KnobTable()) {
    if (const toml::node* node = section.Find(spec.name)) {
      ReadKnob(spec, *node, section, faults, setting);
    }
  }
  section.RefuseOthers();
  for (const std::string& fault : SettingFaults(setting, KnobLimits())) {
    faults.Add(&table, "setting." + fault);
  }
  return setting;
}

const toml::table* SubTable(const toml::node* node, std::string_view key, Faults& faults) {
  if (node == nullptr) return nullptr;
  if (node->as_table() == nullptr) faults.Add(node, fmt::format("{0} must be a table [{0}]", key));
  return node->as_table();
}

void ReadCapacity(const toml::node* node, const std::string& where, const std::string& folder,
                  Faults& faults, GroupConfig& group) {
  const toml::array* list = node == nullptr ? nullptr : node->as_array();
  if (list == nullptr || list->empty() || list->size() > kCapacityDevicesMax) {
    faults.Add(node, fmt::format("{}one to {} capacity devices are needed, each a [[capacity]]",
                                 where, kCapacityDevicesMax));
    return;
  }
  for (const toml::node& element : *list) {
    const std::string name = fmt::format("{}capacity {}", where, group.capacity.size() + 1);
    if (const toml::table* table = element.as_table()) {
      group.capacity.push_back(ReadDevice(*table, name, folder, faults));
    } else {
      faults.Add(&element, name + " must be a table [[capacity]]");
    }
  }
}

// The keys that make a disk group, wherever they stand; `where` is "" or "group 2, ".
GroupConfig ReadGroup(Section& section, const std::string& where, const std::string& folder,
                      Faults& faults) {
  GroupConfig group;
  group.metadata_dir = Resolve(section.RequiredText("metadata_dir"), folder);
  const toml::node* node = section.Find("cache");
  if (const toml::table* cache = SubTable(node, "cache", faults)) {
    group.cache = ReadDevice(*cache, where + "cache", folder, faults);
  } else if (node == nullptr) {
    section.Missing("cache");
  }
  ReadCapacity(section.Find("capacity"), where, folder, faults, group);
  return group;
}

void ReadGroups(const toml::node& node, const std::string& folder, Faults& faults,
                NodeConfig& config) {
  const toml::array* list = node.as_array();
  if (list == nullptr || list->empty() || list->size() > kNodeGroupsMax) {
    faults.Add(&node,
               fmt::format("a node has one to {} disk groups, each a [[group]]", kNodeGroupsMax));
    return;
  }
  for (const toml::node& element : *list) {
    const std::string name = fmt::format("group {}", config.groups.size() + 1);
    const toml::table* table = element.as_table();
    if (table == nullptr) {
      faults.Add(&element, name + " must be a table [[group]]");
      continue;
    }
    Section section(*table, name, faults);
    config.groups.push_back(ReadGroup(section, name + ", ", folder, faults));
    section.RefuseOthers();
  }
}

// Two uses of one file would eat each other.
void RefuseSharedPaths(const NodeConfig& config, Faults& faults) {
  std::vector<std::string> paths = {config.control_socket, config.state_dir, config.nbd.socket};
  for (const GroupConfig& group : config.groups) {
    paths.push_back(group.metadata_dir);
    paths.push_back(group.cache.path);
    for (const DeviceConfig& device : group.capacity) paths.push_back(device.path);
  }
  std::sort(paths.begin(), paths.end());
  for (size_t i = 1; i < paths.size(); ++i) {
    if (!paths[i].empty() && paths[i] == paths[i - 1]) {
      faults.Add(nullptr, fmt::format("{} is named for two purposes", paths[i]));
    }
  }
}

NodeConfig ReadNode(const toml::table& root, const std::string& folder, Faults& faults) {
  Section section(root, "", faults);
  NodeConfig config;
  config.name = section.RequiredText("name");
  config.device_class = section.Text("device_class").value_or("unknown");
  const auto classes = DeviceClasses();
  if (std::find(classes.begin(), classes.end(), config.device_class) == classes.end()) {
    section.Fault("device_class", fmt::format("must be one of {}", fmt::join(classes, ", ")));
  }
  config.initial = PresetSetting(config.device_class);
  if (root.get("volume_size") == nullptr) section.Missing("volume_size");
  config.volume_bytes = section.Bytes("volume_size").value_or(kSectorBytes);
  if (config.volume_bytes == 0 || config.volume_bytes % kSectorBytes != 0) {
    section.Fault("volume_size", "must be one or more whole 4 KiB blocks");
  }
  config.control_socket = Resolve(section.RequiredText("control_socket"), folder);
  config.state_dir = Resolve(section.RequiredText("state_dir"), folder);
  static const toml::table kNone;
  const toml::table* nbd = SubTable(section.Find("nbd"), "nbd", faults);
  config.nbd = ReadNbd(nbd == nullptr ? kNone : *nbd, folder, faults);
  if (const toml::node* groups = section.Find("group")) {
    ReadGroups(*groups, folder, faults, config);
  } else {
    config.groups.push_back(ReadGroup(section, "", folder, faults));
  }
  if (const toml::table* setting = SubTable(section.Find("setting"), "setting", faults)) {
    config.initial = ReadSetting(*setting, config.initial, faults);
  }
  section.RefuseOthers();
  RefuseSharedPaths(config, faults);
  return config;
}

// A TOML basic string.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// Exact, and as people write it where that is exact.
std::string SizeText(uint64_t bytes) {
  for (const auto& [unit, name] : {std::pair{kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}}) {
    if (bytes >= unit && bytes % unit == 0) return fmt::format("\"{}{}\"", bytes / unit, name);
  }
  return fmt::format("{}", bytes);
}

std::string DeviceText(const DeviceConfig& device) {
  std::string text = fmt::format("path = {}\n", Quoted(device.path));
  if (device.create_bytes > 0) text += fmt::format("size = {}\n", SizeText(device.create_bytes));
  if (!device.shape.empty()) text += fmt::format("shape = {}\n", Quoted(device.shape));
  if (device.shape_scale != 1) text += fmt::format("shape_scale = {}\n", device.shape_scale);
  return text;
}

}  // namespace

absl::StatusOr<NodeConfig> ParseNodeConfig(std::string_view toml, const std::string& file_name,
                                           const std::string& folder) {
  Faults faults{file_name, {}};
  NodeConfig config;
  try {
    const toml::table root = toml::parse(toml, file_name);
    config = ReadNode(root, folder, faults);
  } catch (const toml::parse_error& fault) {
    return absl::InvalidArgumentError(
        fmt::format("{}:{}:{}: {}", file_name, fault.source().begin.line,
                    fault.source().begin.column, fault.description()));
  }
  if (!faults.list.empty()) return absl::InvalidArgumentError(absl::StrJoin(faults.list, "\n"));
  return config;
}

absl::StatusOr<NodeConfig> LoadNodeConfig(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return ErrnoStatus(error.value(), path);
  return ParseNodeConfig(text, path, absolute.parent_path().string());
}

std::string FormatNodeConfig(const NodeConfig& config) {
  std::string text = fmt::format(
      "# A node of Ebb: `ebb node start --config THIS_FILE`. Relative paths lie beside this file.\n"
      "name = {}\n"
      "device_class = {}  # of the capacity tier: {}; sets the defaults of knobs\n"
      "volume_size = {}\n"
      "control_socket = {}\n"
      "state_dir = {}\n",
      Quoted(config.name), Quoted(config.device_class), fmt::join(DeviceClasses(), ", "),
      SizeText(config.volume_bytes), Quoted(config.control_socket), Quoted(config.state_dir));
  const bool single = config.groups.size() == 1;
  if (single) text += fmt::format("metadata_dir = {}\n", Quoted(config.groups[0].metadata_dir));
  text += "\n[nbd]\n";
  if (config.nbd.socket.empty()) {
    text += fmt::format("address = {}\nport = {}\n", Quoted(config.nbd.address), config.nbd.port);
  } else {
    text += fmt::format("socket = {}\n", Quoted(config.nbd.socket));
  }
  text += fmt::format("threads = {}\n", config.nbd.threads);
  for (const GroupConfig& group : config.groups) {
    if (!single) {
      text += fmt::format("\n[[group]]\nmetadata_dir = {}\n", Quoted(group.metadata_dir));
    }
    const char* prefix = single ? "" : "group.";
    text += fmt::format("\n[{}cache]\n{}", prefix, DeviceText(group.cache));
    for (const DeviceConfig& device : group.capacity) {
      text += fmt::format("\n[[{}capacity]]\n{}", prefix, DeviceText(device));
    }
  }
  text += "\n# Knobs of the first start; later the node keeps the incumbent that was committed.\n";
  text += "[setting]\n";
  for (const KnobSpec& spec : KnobTable()) {
    const int64_t value = config.initial[spec.id];
    if (value == spec.default_value && value == PresetSetting(config.device_class)[spec.id]) {
      continue;
    }
    text += fmt::format("{} = {}\n", spec.name,
                        spec.kind == KnobKind::kChoice ? Quoted(FormatKnobValue(spec, value))
                                                       : fmt::format("{}", value));
  }
  return text;
}

std::string NbdUri(const NbdConfig& nbd) {
  if (nbd.socket.empty()) return fmt::format("nbd://{}:{}", nbd.address, nbd.port);
  return fmt::format("nbd+unix:///?socket={}", nbd.socket);
}

}  // namespace ebb::storage
