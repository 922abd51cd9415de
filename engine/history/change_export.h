// Changes as lines that other programs read: JSON lines, or CSV for spreadsheets.
//
// One line a change, newest first, with REST's words; knobs as the numbers that the node knows.
// What is read at a time has a fixed size, however long the history is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/history/history.h"

namespace ebb::engine {

enum class ExportFormat : uint8_t { kJsonLines, kCsv };

// CSV's first line, with its line end (RFC 4180: CR LF); nothing for JSON lines.
std::string ExportHeader(ExportFormat format);
std::string ExportLine(ExportFormat format, const Change& change);

// Gives every change that matches to `write`, one line at a time, until it returns false. The
// query's limit does not count. An empty `node` asks for all nodes.
absl::Status ExportChanges(History& history, const std::string& node, ChangeQuery query,
                           ExportFormat format,
                           const std::function<bool(std::string_view line)>& write);

}  // namespace ebb::engine
