#include "api/cli/table.h"

#include <algorithm>

#include "base/check.h"
#include "base/csv.h"

namespace ebb::cli {
namespace {

// Columns that a text takes on a terminal: code points, for what we print has no wide ones.
size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

std::string Toned(const Session& session, std::string_view text, Tone tone) {
  if (!session.colour || tone == Tone::kPlain) return std::string(text);
  const char* code = tone == Tone::kGood ? "\x1b[32m" : tone == Tone::kBad ? "\x1b[31m" : "\x1b[2m";
  return code + std::string(text) + "\x1b[0m";
}

void Table::Add(std::vector<std::string> cells, Tone tone, size_t toned) {
  EBB_CHECK(cells.size() == titles_.size());
  rows_.push_back({std::move(cells), tone, toned});
}

std::string Table::Aligned(const Session& session) const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < titles_.size(); ++i) {
    size_t width = session.header ? Width(titles_[i]) : 0;
    for (const Row& row : rows_) width = std::max(width, Width(row.cells[i]));
    widths.push_back(width);
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells, Tone tone, size_t toned) {
    for (size_t i = 0; i < cells.size(); ++i) {
      text += i == toned ? Toned(session, cells[i], tone) : cells[i];
      // The last column is never padded: lines must not end in blanks.
      if (i + 1 < cells.size()) text += std::string(widths[i] - Width(cells[i]) + 2, ' ');
    }
    text += '\n';
  };
  if (session.header) add_line(titles_, Tone::kPlain, 0);
  for (const Row& row : rows_) add_line(row.cells, row.tone, row.toned);
  return text;
}

std::string Table::Csv(const Session& session) const {
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) text += (i == 0 ? "" : ",") + CsvCell(cells[i]);
    text += '\n';
  };
  if (session.header) add_line(titles_);
  for (const Row& row : rows_) add_line(row.cells);
  return text;
}

void Table::Print(const Session& session) const {
  session.Print(session.format == Format::kCsv ? Csv(session) : Aligned(session));
}

}  // namespace ebb::cli
