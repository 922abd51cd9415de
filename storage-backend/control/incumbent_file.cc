#include "storage-backend/control/incumbent_file.h"

#include <optional>

#include "base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/durable_file.h"
#include "storage-backend/control/knob_json.h"

namespace ebb::storage {
namespace {

using Json = nlohmann::json;

// The checksum covers the compact text of "incumbent", whatever a person's editor did around it.
std::optional<IncumbentRecord> RecordOf(const std::string& content) {
  try {
    const Json file = Json::parse(content);
    const Json& body = file.at("incumbent");
    if (file.at("crc") != Crc32cHex(body.dump())) return std::nullopt;
    IncumbentRecord record;
    record.version = body.at("version");
    for (const auto& [name, value] : body.at("setting").items()) {
      const KnobSpec* spec = FindKnob(name);
      if (spec == nullptr) continue;
      if (spec->kind == KnobKind::kChoice) {
        const std::optional<int64_t> choice = ParseChoice(*spec, value.get<std::string>());
        if (!choice) return std::nullopt;
        record.setting.Set(spec->id, *choice);
      } else {
        record.setting.Set(spec->id, value.get<int64_t>());
      }
    }
    return record;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

absl::Status WriteIncumbent(const std::string& path, const IncumbentRecord& record) {
  const Json body = {{"version", record.version},
                     {"setting", Json::parse(SettingToJson(record.setting))}};
  const Json file = {{"crc", Crc32cHex(body.dump())}, {"incumbent", body}};
  return WriteFileDurably(path, file.dump() + "\n");
}

absl::StatusOr<IncumbentRecord> ReadIncumbent(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const std::string content, ReadWholeFile(path));
  std::optional<IncumbentRecord> record = RecordOf(content);
  if (!record) return absl::DataLossError(fmt::format("{} is damaged", path));
  return *std::move(record);
}

}  // namespace ebb::storage
