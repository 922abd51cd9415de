#include "env/trace/formats/fields.h"

#include <charconv>
#include <system_error>

namespace ebb::env {
namespace {

bool IsBlank(char letter) { return letter == ' ' || letter == '\t'; }

}  // namespace

std::string_view TrimBlanks(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

size_t SplitCommas(std::string_view line, std::span<std::string_view> fields) {
  size_t count = 0;
  for (size_t begin = 0; begin <= line.size();) {
    size_t end = line.find(',', begin);
    if (end == line.npos) end = line.size();
    if (count < fields.size()) fields[count] = TrimBlanks(line.substr(begin, end - begin));
    ++count;
    begin = end + 1;
  }
  return count;
}

size_t SplitBlanks(std::string_view line, std::span<std::string_view> fields) {
  size_t count = 0;
  for (size_t at = 0; at < line.size();) {
    if (IsBlank(line[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < line.size() && !IsBlank(line[at])) ++at;
    if (count < fields.size()) fields[count] = line.substr(begin, at - begin);
    ++count;
  }
  return count;
}

bool ParseNumber(std::string_view text, uint64_t* value, int base) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value, base);
  return error == std::errc{} && stop == end && !text.empty();
}

bool ParseTime(std::string_view text, uint64_t unit_ns, uint64_t* ns) {
  const size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view part = point == text.npos ? "" : text.substr(point + 1);
  if (whole.empty() && part.empty()) return false;
  uint64_t units = 0;
  if (!whole.empty() && !ParseNumber(whole, &units)) return false;
  if (__builtin_mul_overflow(units, unit_ns, ns)) return false;
  uint64_t digit_ns = unit_ns;
  for (const char digit : part) {
    if (digit < '0' || digit > '9') return false;
    digit_ns /= 10;
    if (__builtin_add_overflow(*ns, static_cast<uint64_t>(digit - '0') * digit_ns, ns)) {
      return false;
    }
  }
  return true;
}

bool SetPlace(uint64_t start, uint64_t count, uint64_t unit_bytes, trace::TraceRecord* record) {
  return !__builtin_mul_overflow(start, unit_bytes, &record->offset) &&
         !__builtin_mul_overflow(count, unit_bytes, &record->bytes);
}

bool EqualsIgnoringCase(std::string_view text, std::string_view lower_case) {
  if (text.size() != lower_case.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    const bool upper = letter >= 'A' && letter <= 'Z';
    if ((upper ? static_cast<char>(letter - 'A' + 'a') : letter) != lower_case[i]) return false;
  }
  return true;
}

}  // namespace ebb::env
