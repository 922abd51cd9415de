#include "base/csv.h"

namespace ebb {
namespace {

bool LooksLikeFormula(std::string_view text) {
  if (text.empty()) return false;
  const char first = text.front();
  if (first == '+' || first == '-') {
    // Numbers with their unit, such as -0.031, +8.1 % or -1e-05, calculate nothing harmful.
    return text.find_first_not_of("0123456789.+-eE %") != std::string_view::npos;
  }
  return first == '=' || first == '@' || first == '\t' || first == '\r';
}

}  // namespace

std::string CsvCell(std::string_view text) {
  std::string cell(LooksLikeFormula(text) ? "'" : "");
  cell.append(text);
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace ebb
