#include "env/twin/model_file.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>
#include <variant>
#include <vector>

#include <toml++/toml.h>

#include "base/nearest.h"
#include "base/status.h"
#include "fmt/format.h"

namespace ebb::twin {
namespace {

using storage::FlashParameters;
using storage::ServiceParameters;

// A number of the model with its name in the file.
struct Field {
  const char* key;
  std::variant<double*, int*, uint64_t*> value;
  double min = 0;
  double max = 1e12;
};
// Four numbers, one for each codec.
struct ListField {
  const char* key;
  double (*values)[4];
};
struct Section {
  const char* name;
  std::vector<Field> fields;
  std::vector<ListField> lists = {};
};

std::vector<Section> NodeSections(NodeModel& node) {
  CpuCosts& cpu = node.cpu;
  MetadataCosts& metadata = node.metadata;
  return {{"node",
           {{"cores", &node.cores, 1, 256},
            {"workers", &node.workers, 1, 4096},
            {"client_overhead_ns", &node.client_overhead_ns}}},
          {"cpu",
           {{"nbd_request", &cpu.nbd_request},
            {"read_request", &cpu.read_request},
            {"read_block", &cpu.read_block},
            {"write_request", &cpu.write_request},
            {"write_block", &cpu.write_block},
            {"group_close", &cpu.group_close},
            {"flush_request", &cpu.flush_request},
            {"device_wait", &cpu.device_wait},
            {"contended_wake", &cpu.contended_wake},
            {"map_page_miss", &cpu.map_page_miss},
            {"unit_miss", &cpu.unit_miss},
            {"destage_block", &cpu.destage_block},
            {"unit_record", &cpu.unit_record},
            {"fingerprint_block", &cpu.fingerprint_block},
            {"fingerprint_lookup", &cpu.fingerprint_lookup}},
           {{"compress_byte", &cpu.compress_byte},
            {"compress_byte_random", &cpu.compress_byte_random},
            {"decompress_byte", &cpu.decompress_byte}}},
          {"metadata",
           {{"commit_ns", &metadata.commit_ns},
            {"commit_byte_ns", &metadata.commit_byte_ns},
            {"page_write_bytes", &metadata.page_write_bytes}}},
          {"codec",
           {{"size_per_halving", &node.codec.size_per_halving}},
           {{"size_against_lz4", &node.codec.size_against_lz4}}}};
}

std::vector<Field> DeviceFields(ServiceParameters& device) {
  std::vector<Field> fields;
  storage::VisitParameters(device, [&](const storage::ServiceParameterInfo& info, auto& value) {
    fields.push_back({info.name, &value});
  });
  return fields;
}

std::string ValueText(const Field& field) {
  return std::visit(
      [](const auto* value) { return fmt::format("{:.12g}", static_cast<double>(*value)); },
      field.value);
}

void Append(std::string& text, const Field& field) {
  text += fmt::format("{} = {}\n", field.key, ValueText(field));
}

void AppendDevice(std::string& text, const char* name, ServiceParameters device) {
  const bool flash = std::holds_alternative<FlashParameters>(device);
  text += fmt::format("\n[{}]\nfamily = \"{}\"\n", name, flash ? "flash" : "disk");
  for (const Field& field : DeviceFields(device)) Append(text, field);
}

// Reads one file and remembers its first fault.
class Reader {
 public:
  explicit Reader(std::string file_name) : file_name_(std::move(file_name)) {}

  absl::Status Fault(const toml::node& node, std::string_view text) const {
    return absl::InvalidArgumentError(fmt::format(
        "{}:{}:{}: {}", file_name_, node.source().begin.line, node.source().begin.column, text));
  }

  absl::Status Read(const toml::table& table, const Section& section) const {
    std::vector<std::string_view> known;
    for (const Field& field : section.fields) known.emplace_back(field.key);
    for (const ListField& list : section.lists) known.emplace_back(list.key);
    for (const auto& [key, node] : table) {
      if (key == "family") continue;
      EBB_RETURN_IF_ERROR(ReadKey(key.str(), node, section, known));
    }
    return absl::OkStatus();
  }

  absl::Status Unknown(const toml::node& node, std::string_view where, std::string_view key,
                       const std::vector<std::string_view>& known) const {
    const std::string_view near = NearestWord(key, known);
    return Fault(node, fmt::format("{} has no key {}{}", where, key,
                                   near.empty() ? "" : fmt::format(": did you mean {}?", near)));
  }

 private:
  absl::Status ReadKey(std::string_view key, const toml::node& node, const Section& section,
                       const std::vector<std::string_view>& known) const {
    for (const Field& field : section.fields) {
      if (key == field.key) return ReadNumber(node, field);
    }
    for (const ListField& list : section.lists) {
      if (key == list.key) return ReadList(node, list);
    }
    return Unknown(node, fmt::format("[{}]", section.name), key, known);
  }

  absl::Status ReadNumber(const toml::node& node, const Field& field) const {
    const std::optional<double> value = node.value<double>();
    if (!node.is_number() || !value || !(*value >= field.min && *value <= field.max)) {
      return Fault(
          node, fmt::format("{} is a number within {:g} to {:g}", field.key, field.min, field.max));
    }
    std::visit(
        [&](auto* target) {
          *target = static_cast<std::remove_reference_t<decltype(*target)>>(*value);
        },
        field.value);
    return absl::OkStatus();
  }

  absl::Status ReadList(const toml::node& node, const ListField& list) const {
    const toml::array* array = node.as_array();
    if (array == nullptr || array->size() != std::size(*list.values)) {
      return Fault(node, fmt::format("{} is a list of four numbers", list.key));
    }
    for (size_t i = 0; i < array->size(); ++i) {
      const Field one{list.key, &(*list.values)[i]};
      EBB_RETURN_IF_ERROR(ReadNumber((*array)[i], one));
    }
    return absl::OkStatus();
  }

  const std::string file_name_;
};

absl::Status ReadDevice(const Reader& reader, const char* name, const toml::table& table,
                        std::optional<ServiceParameters>& device) {
  const toml::node* family = table.get("family");
  const std::string word = family == nullptr ? "" : family->value<std::string>().value_or("");
  if (word != "flash" && word != "disk") {
    return reader.Fault(table, fmt::format("[{}] needs family = \"flash\" or \"disk\"", name));
  }
  ServiceParameters parameters =
      *storage::ServiceParametersOf(word == "flash" ? "sata-ssd" : "disk-7200");
  EBB_RETURN_IF_ERROR(reader.Read(table, {name, DeviceFields(parameters)}));
  if (absl::Status status = storage::CheckServiceParameters(parameters); !status.ok()) {
    return reader.Fault(table, std::string(status.message()));
  }
  device = parameters;
  return absl::OkStatus();
}

}  // namespace

std::string FormatNodeModel(const NodeModel& node, std::string_view comment,
                            const ModelParts& parts) {
  std::string text;
  std::istringstream lines{std::string(comment)};
  for (std::string line; std::getline(lines, line);) text += fmt::format("# {}\n", line);
  NodeModel copy = node;
  if (parts.node) {
    for (const Section& section : NodeSections(copy)) {
      text += fmt::format("\n[{}]\n", section.name);
      for (const Field& field : section.fields) Append(text, field);
      for (const ListField& list : section.lists) {
        const double* v = *list.values;
        text += fmt::format("{} = [{:.6g}, {:.6g}, {:.6g}, {:.6g}]\n", list.key, v[0], v[1], v[2],
                            v[3]);
      }
    }
  }
  if (node.cache_fitted) AppendDevice(text, "cache", *node.cache_fitted);
  if (node.capacity_fitted) AppendDevice(text, "capacity", *node.capacity_fitted);
  return text;
}

absl::StatusOr<NodeModel> ParseNodeModel(std::string_view toml, const std::string& file_name,
                                         const NodeModel& base) {
  toml::table root;
  try {
    root = toml::parse(toml, file_name);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(
        fmt::format("{}:{}:{}: {}", file_name, error.source().begin.line,
                    error.source().begin.column, error.description()));
  }
  const Reader reader(file_name);
  NodeModel node = base;
  for (const auto& [key, value] : root) {
    const toml::table* table = value.as_table();
    const std::vector<Section> sections = NodeSections(node);
    const auto section =
        std::find_if(sections.begin(), sections.end(),
                     [&, name = key.str()](const Section& s) { return name == s.name; });
    if (section == sections.end() && key != "cache" && key != "capacity") {
      return reader.Unknown(value, "a model", key.str(),
                            {"node", "cpu", "metadata", "cache", "capacity"});
    }
    if (table == nullptr) {
      return reader.Fault(value, fmt::format("{} is a table: [{}]", key.str(), key.str()));
    }
    if (section != sections.end()) {
      EBB_RETURN_IF_ERROR(reader.Read(*table, *section));
    } else if (key == "cache") {
      EBB_RETURN_IF_ERROR(ReadDevice(reader, "cache", *table, node.cache_fitted));
    } else {
      EBB_RETURN_IF_ERROR(ReadDevice(reader, "capacity", *table, node.capacity_fitted));
    }
  }
  return node;
}

absl::StatusOr<NodeModel> LoadNodeModel(const std::string& path, const NodeModel& base) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(fmt::format("cannot read {}", path));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return ParseNodeModel(text, path, base);
}

}  // namespace ebb::twin
