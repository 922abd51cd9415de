// Params reads the named parameters of one request and says everything that is wrong with them.
//
// For the .cc files of this folder only: it shows the JSON library's types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace ebb::storage {

// A value as its JSON text, cut after 60 bytes: for messages.
std::string ShortJson(const nlohmann::json& value);

class Params {
 public:
  // Reads `object` (kept by the caller, like `faults`). `where` names it in messages ("trips"), or
  // is empty for the parameters themselves.
  Params(const nlohmann::json& object, std::string_view where, std::vector<std::string>& faults);

  // The value of a parameter; nullptr, and for Required a fault, when it is missing. An explicit
  // null counts as missing.
  const nlohmann::json* Required(std::string_view name);
  const nlohmann::json* Optional(std::string_view name);

  // Integers in [min, max]; a fault and 0 or nullopt when it is something else.
  uint64_t RequiredUnsigned(std::string_view name, uint64_t min, uint64_t max);
  std::optional<uint64_t> OptionalUnsigned(std::string_view name, uint64_t min, uint64_t max);
  // A finite number above 0.
  std::optional<double> OptionalPositive(std::string_view name);
  std::string RequiredText(std::string_view name, size_t bytes_max);
  std::optional<std::string> OptionalText(std::string_view name, size_t bytes_max);
  std::optional<bool> OptionalBool(std::string_view name);

  // A fault for every parameter that was not asked for, with a suggestion. Call it last.
  void RefuseOthers();

 private:
  std::string Path(std::string_view name) const;
  void Fault(std::string_view name, std::string_view must, const nlohmann::json& value);

  const nlohmann::json& object_;
  const std::string_view where_;
  std::vector<std::string>& faults_;
  std::vector<std::string_view> known_;
};

}  // namespace ebb::storage
