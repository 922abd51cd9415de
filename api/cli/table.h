// Table: rows of text, printed aligned for people or as CSV (RFC 4180) for programs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "api/cli/session.h"

namespace ebb::cli {

enum class Tone { kPlain, kGood, kBad, kFaint };

class Table {
 public:
  explicit Table(std::vector<std::string> titles) : titles_(std::move(titles)) {}
  // As many cells as there are titles. `tone` colours the row's cell `toned` on a terminal.
  void Add(std::vector<std::string> cells, Tone tone = Tone::kPlain, size_t toned = 0);
  // By the session's format; kJson is not the table's business.
  void Print(const Session& session) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Tone tone;
    size_t toned;
  };
  std::string Aligned(const Session& session) const;
  std::string Csv(const Session& session) const;

  std::vector<std::string> titles_;
  std::vector<Row> rows_;
};

// `text` in the tone's colour when the session has colours.
std::string Toned(const Session& session, std::string_view text, Tone tone);

}  // namespace ebb::cli
