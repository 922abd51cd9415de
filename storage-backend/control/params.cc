#include "storage-backend/control/params.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/suggest.h"

namespace ebb::storage {
namespace {

using Json = nlohmann::json;

constexpr size_t kShortBytesMax = 60;

}  // namespace

std::string ShortJson(const Json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kShortBytesMax) text = text.substr(0, kShortBytesMax) + "...";
  return text;
}

Params::Params(const Json& object, std::string_view where, std::vector<std::string>& faults)
    : object_(object), where_(where), faults_(faults) {
  if (!object_.is_object()) {
    faults_.push_back(fmt::format("{} must be an object, not {}",
                                  where_.empty() ? "params" : where_, ShortJson(object_)));
  }
}

std::string Params::Path(std::string_view name) const {
  return where_.empty() ? std::string(name) : fmt::format("{}.{}", where_, name);
}

void Params::Fault(std::string_view name, std::string_view must, const Json& value) {
  faults_.push_back(fmt::format("{} must be {}, not {}", Path(name), must, ShortJson(value)));
}

const Json* Params::Optional(std::string_view name) {
  if (std::find(known_.begin(), known_.end(), name) == known_.end()) known_.push_back(name);
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json* Params::Required(std::string_view name) {
  const Json* value = Optional(name);
  if (value == nullptr && object_.is_object()) {
    faults_.push_back(fmt::format("{} is missing", Path(name)));
  }
  return value;
}

std::optional<uint64_t> Params::OptionalUnsigned(std::string_view name, uint64_t min,
                                                 uint64_t max) {
  const Json* value = Optional(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned() || value->get<uint64_t>() < min ||
      value->get<uint64_t>() > max) {
    Fault(name, fmt::format("an integer from {} to {}", min, max), *value);
    return std::nullopt;
  }
  return value->get<uint64_t>();
}

uint64_t Params::RequiredUnsigned(std::string_view name, uint64_t min, uint64_t max) {
  return Required(name) == nullptr ? 0 : OptionalUnsigned(name, min, max).value_or(0);
}

std::optional<double> Params::OptionalPositive(std::string_view name) {
  const Json* value = Optional(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() <= 0) {
    Fault(name, "a number above 0", *value);
    return std::nullopt;
  }
  return value->get<double>();
}

std::optional<std::string> Params::OptionalText(std::string_view name, size_t bytes_max) {
  const Json* value = Optional(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string() || value->get_ref<const std::string&>().size() > bytes_max) {
    Fault(name, fmt::format("a string of at most {} bytes", bytes_max), *value);
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::string Params::RequiredText(std::string_view name, size_t bytes_max) {
  return Required(name) == nullptr ? "" : OptionalText(name, bytes_max).value_or("");
}

std::optional<bool> Params::OptionalBool(std::string_view name) {
  const Json* value = Optional(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    Fault(name, "true or false", *value);
    return std::nullopt;
  }
  return value->get<bool>();
}

void Params::RefuseOthers() {
  if (!object_.is_object()) return;
  for (const auto& [name, unused] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    faults_.push_back(fmt::format("there is no parameter {}{}{}", where_.empty() ? "" : where_,
                                  where_.empty() ? "" : ".", ShortJson(name)) +
                      DidYouMean(name, known_));
  }
}

}  // namespace ebb::storage
