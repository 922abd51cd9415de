// BodyReader and QueryReader take a request apart and collect every fault before answering once.
//
// Ask for each member or parameter that the route knows, then call Finish: it reports all faults
// at once, and whatever was sent but never asked for is a fault too, with the nearest known name.
// A getter gives nothing when the member is absent or wrong; only Finish tells which.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/rest/message.h"

namespace ebb::rest {

enum class Presence : uint8_t { kOptional, kRequired };

class BodyReader {
 public:
  explicit BodyReader(std::string_view body);
  ~BodyReader();
  BodyReader(const BodyReader&) = delete;
  BodyReader& operator=(const BodyReader&) = delete;

  std::optional<std::string> Text(std::string_view member, size_t bytes_max, Presence presence);
  std::optional<bool> Bool(std::string_view member, Presence presence);
  // The position of the member's word in `words`.
  std::optional<size_t> Word(std::string_view member, std::span<const std::string_view> words,
                             Presence presence);
  // RFC 3339 text or Unix milliseconds as a number.
  std::optional<int64_t> Time(std::string_view member, Presence presence);
  // An object of numbers, by name; null is an empty one. Other names than `known` are faults.
  std::optional<std::map<std::string, double>> Numbers(std::string_view member,
                                                       std::span<const std::string_view> known,
                                                       Presence presence);
  bool Has(std::string_view member) const;
  // A fault of meaning that only the route can see.
  void AddFault(std::string_view member, std::string detail);
  // Likewise, of an entry of an object.
  void AddFault(std::string_view member, std::string_view entry, std::string detail);
  std::optional<Problem> Finish();

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

class QueryReader {
 public:
  // Name and value pairs, decoded.
  explicit QueryReader(std::vector<std::pair<std::string, std::string>> parameters)
      : parameters_(std::move(parameters)) {}

  std::optional<std::string> Text(std::string_view name);
  std::optional<bool> Bool(std::string_view name);
  std::optional<size_t> Word(std::string_view name, std::span<const std::string_view> words);
  std::optional<int64_t> Time(std::string_view name);
  std::optional<uint64_t> Count(std::string_view name, uint64_t min, uint64_t max);
  void AddFault(std::string_view name, std::string detail);
  std::optional<Problem> Finish();

 private:
  std::vector<std::pair<std::string, std::string>> parameters_;
  std::vector<std::string_view> known_;
  std::vector<Fault> faults_;
};

}  // namespace ebb::rest
