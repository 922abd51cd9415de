#include "api/rest/readers.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/nearest.h"
#include "base/time_text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::rest {
namespace {

constexpr size_t kGotBytesMax = 80;

std::string Cut(std::string text) {
  if (text.size() > kGotBytesMax) text = text.substr(0, kGotBytesMax) + "...";
  return text;
}

// A member's name as a JSON pointer (RFC 6901).
std::string Pointer(std::string_view member) {
  std::string pointer = member.empty() ? "" : "/";  // empty: the body as a whole
  for (const char c : member) {
    if (c == '~') {
      pointer += "~0";
    } else if (c == '/') {
      pointer += "~1";
    } else {
      pointer += c;
    }
  }
  return pointer;
}

std::string OneOf(std::span<const std::string_view> words) {
  return fmt::format("must be one of {}", fmt::join(words, ", "));
}

Fault UnknownName(std::string_view name, std::string_view kind,
                  const std::vector<std::string_view>& known) {
  Fault fault;
  fault.did_you_mean = NearestWord(name, known);
  fault.detail = known.empty()
                     ? fmt::format("takes no {}", kind)
                     : fmt::format("unknown {}; known are {}", kind, fmt::join(known, ", "));
  return fault;
}

}  // namespace

struct BodyReader::Parsed {
  nlohmann::json json;
  std::optional<Problem> syntax;
  std::vector<std::string_view> known;
  std::vector<Fault> faults;

  // The member when it is there; otherwise a fault if it must be.
  const nlohmann::json* Find(std::string_view member, Presence presence) {
    known.push_back(member);
    if (syntax) return nullptr;
    const auto found = json.find(member);
    if (found != json.end()) return &*found;
    if (presence == Presence::kRequired) {
      faults.push_back({Pointer(member), {}, "is missing", {}, {}});
    }
    return nullptr;
  }
  void Refuse(std::string_view member, const nlohmann::json& value, std::string detail,
              std::string_view near = {}) {
    faults.push_back({Pointer(member),
                      {},
                      std::move(detail),
                      Cut(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)),
                      std::string(near)});
  }
};

BodyReader::BodyReader(std::string_view body) : parsed_(std::make_unique<Parsed>()) {
  std::set<std::string> seen;
  std::string twice;
  const auto notice_twice = [&](int depth, nlohmann::json::parse_event_t event,
                                nlohmann::json& value) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      if (!seen.insert(name).second) twice = name;
    }
    return true;
  };
  try {
    parsed_->json = nlohmann::json::parse(body, notice_twice);
  } catch (const nlohmann::json::parse_error& error) {
    parsed_->syntax = Problem{
        400,
        "malformed-json",
        fmt::format("The body stops being JSON at byte {}.", error.byte == 0 ? 0 : error.byte - 1),
        {},
        {}};
    return;
  } catch (const nlohmann::json::exception&) {
    // Such as a number beyond a double: valid JSON, but of no use here.
    parsed_->syntax =
        Problem{400, "malformed-json", "The body holds a number out of range.", {}, {}};
    return;
  }
  if (!parsed_->json.is_object()) {
    parsed_->syntax = Problem{400, "malformed-json", "The body must be a JSON object.", {}, {}};
  } else if (!twice.empty()) {
    parsed_->faults.push_back({Pointer(twice), {}, "is given twice", {}, {}});
  }
}

BodyReader::~BodyReader() = default;

bool BodyReader::Has(std::string_view member) const {
  return !parsed_->syntax && parsed_->json.contains(member);
}

std::optional<std::string> BodyReader::Text(std::string_view member, size_t bytes_max,
                                            Presence presence) {
  const nlohmann::json* value = parsed_->Find(member, presence);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    parsed_->Refuse(member, *value, "must be a string");
    return std::nullopt;
  }
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > bytes_max) {
    parsed_->Refuse(member, *value, fmt::format("must be at most {} bytes long", bytes_max));
    return std::nullopt;
  }
  if (presence == Presence::kRequired && text.empty()) {
    parsed_->Refuse(member, *value, "must not be empty");
    return std::nullopt;
  }
  return text;
}

std::optional<bool> BodyReader::Bool(std::string_view member, Presence presence) {
  const nlohmann::json* value = parsed_->Find(member, presence);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    parsed_->Refuse(member, *value, "must be true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<size_t> BodyReader::Word(std::string_view member,
                                       std::span<const std::string_view> words, Presence presence) {
  const nlohmann::json* value = parsed_->Find(member, presence);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    const auto found = std::find(words.begin(), words.end(), text);
    if (found != words.end()) return static_cast<size_t>(found - words.begin());
    parsed_->Refuse(member, *value, OneOf(words), NearestWord(text, words));
  } else {
    parsed_->Refuse(member, *value, OneOf(words));
  }
  return std::nullopt;
}

std::optional<int64_t> BodyReader::Time(std::string_view member, Presence presence) {
  const nlohmann::json* value = parsed_->Find(member, presence);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned() && value->get<uint64_t>() <= INT64_MAX) {
    return value->get<int64_t>();
  }
  if (value->is_string()) {
    const auto time = ParseTimeMs(value->get_ref<const std::string&>());
    if (time.ok()) return *time;
  }
  parsed_->Refuse(member, *value, "must be an RFC 3339 time or Unix milliseconds");
  return std::nullopt;
}

std::optional<std::map<std::string, double>> BodyReader::Numbers(
    std::string_view member, std::span<const std::string_view> known, Presence presence) {
  const nlohmann::json* value = parsed_->Find(member, presence);
  if (value == nullptr) return std::nullopt;
  std::map<std::string, double> numbers;
  if (value->is_null()) return numbers;
  if (!value->is_object()) {
    parsed_->Refuse(member, *value, "must be an object of numbers");
    return std::nullopt;
  }
  const size_t faults_before = parsed_->faults.size();
  for (const auto& [name, number] : value->items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      Fault fault = UnknownName(name, "member", {known.begin(), known.end()});
      fault.pointer = Pointer(member) + Pointer(Cut(name));
      parsed_->faults.push_back(std::move(fault));
    } else if (!number.is_number()) {
      AddFault(member, name, "must be a number");
    } else {
      numbers[name] = number.get<double>();
    }
  }
  if (parsed_->faults.size() != faults_before) return std::nullopt;
  return numbers;
}

void BodyReader::AddFault(std::string_view member, std::string_view entry, std::string detail) {
  const std::string pointer = Pointer(member) + (entry.empty() ? "" : Pointer(entry));
  parsed_->faults.push_back({pointer, {}, std::move(detail), {}, {}});
}

void BodyReader::AddFault(std::string_view member, std::string detail) {
  parsed_->faults.push_back({Pointer(member), {}, std::move(detail), {}, {}});
}

std::optional<Problem> BodyReader::Finish() {
  if (parsed_->syntax) return parsed_->syntax;
  for (const auto& [name, value] : parsed_->json.items()) {
    const auto& known = parsed_->known;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    Fault fault = UnknownName(name, "member", known);
    fault.pointer = Pointer(Cut(name));
    parsed_->faults.push_back(std::move(fault));
  }
  if (parsed_->faults.empty()) return std::nullopt;
  return Problem{422,
                 "invalid-content",
                 fmt::format("The body has {} fault{}; see errors.", parsed_->faults.size(),
                             parsed_->faults.size() == 1 ? "" : "s"),
                 parsed_->faults,
                 {}};
}

std::optional<std::string> QueryReader::Text(std::string_view name) {
  known_.push_back(name);
  std::optional<std::string> value;
  for (const auto& [key, text] : parameters_) {
    if (key != name) continue;
    if (value) {
      AddFault(name, "is given twice");
      return std::nullopt;
    }
    value = text;
  }
  if (value && value->empty()) {
    AddFault(name, "must not be empty");
    return std::nullopt;
  }
  return value;
}

std::optional<bool> QueryReader::Bool(std::string_view name) {
  const auto text = Text(name);
  if (!text) return std::nullopt;
  if (*text == "true") return true;
  if (*text == "false") return false;
  faults_.push_back({{}, std::string(name), "must be true or false", Cut(*text), {}});
  return std::nullopt;
}

std::optional<size_t> QueryReader::Word(std::string_view name,
                                        std::span<const std::string_view> words) {
  const auto text = Text(name);
  if (!text) return std::nullopt;
  const auto found = std::find(words.begin(), words.end(), *text);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  faults_.push_back(
      {{}, std::string(name), OneOf(words), Cut(*text), std::string(NearestWord(*text, words))});
  return std::nullopt;
}

std::optional<int64_t> QueryReader::Time(std::string_view name) {
  const auto text = Text(name);
  if (!text) return std::nullopt;
  const auto time = ParseTimeMs(*text);
  if (time.ok()) return *time;
  faults_.push_back({{},
                     std::string(name),
                     "must be an RFC 3339 time (a '+' in it written %2B) or "
                     "Unix milliseconds",
                     Cut(*text),
                     {}});
  return std::nullopt;
}

std::optional<uint64_t> QueryReader::Count(std::string_view name, uint64_t min, uint64_t max) {
  const auto text = Text(name);
  if (!text) return std::nullopt;
  uint64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error == std::errc() && stop == end && value >= min && value <= max) return value;
  faults_.push_back({{},
                     std::string(name),
                     fmt::format("must be a whole number from {} to {}", min, max),
                     Cut(*text),
                     {}});
  return std::nullopt;
}

void QueryReader::AddFault(std::string_view name, std::string detail) {
  faults_.push_back({{}, std::string(name), std::move(detail), {}, {}});
}

std::optional<Problem> QueryReader::Finish() {
  for (const auto& [name, value] : parameters_) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    Fault fault = UnknownName(name, "query parameter", known_);
    fault.parameter = Cut(name);
    faults_.push_back(std::move(fault));
  }
  if (faults_.empty()) return std::nullopt;
  return Problem{400,
                 "bad-parameter",
                 fmt::format("The query has {} fault{}; see errors.", faults_.size(),
                             faults_.size() == 1 ? "" : "s"),
                 faults_,
                 {}};
}

}  // namespace ebb::rest
