// Cells of comma-separated values, as RFC 4180 has them and spreadsheets may safely open them.
#pragma once

#include <string>
#include <string_view>

namespace ebb {

// Quoted where it must be. A text that a spreadsheet would take for a formula (it begins with =, +,
// -, @, a tab or a carriage return and is no number) gets an apostrophe in front, which makes it a
// text: reasons and names come from nodes and people.
std::string CsvCell(std::string_view text);

}  // namespace ebb
