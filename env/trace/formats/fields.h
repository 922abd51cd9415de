// Numbers and columns in the lines of text traces. Everything here refuses what it cannot take
// whole: no sign, no rest, no overflow, no rounding of a stamp through a double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/trace/trace_format.h"

namespace ebb::env {

inline constexpr uint64_t kSectorBytes = 512;

std::string_view TrimBlanks(std::string_view text);

// The columns of `line`, trimmed of blanks, as far as `fields` has room; returns how many there
// are in all. An empty column counts.
size_t SplitCommas(std::string_view line, std::span<std::string_view> fields);
// Columns parted by any number of blanks or tabs.
size_t SplitBlanks(std::string_view line, std::span<std::string_view> fields);

bool ParseNumber(std::string_view text, uint64_t* value, int base = 10);
// "12", "12.5", ".5" of a unit of `unit_ns` nanoseconds, exactly; what is below 1 ns is cut off.
bool ParseTime(std::string_view text, uint64_t unit_ns, uint64_t* ns);

// A place and length in units of `unit_bytes`; false when it is beyond 2^64 bytes.
bool SetPlace(uint64_t start, uint64_t count, uint64_t unit_bytes, trace::TraceRecord* record);

bool EqualsIgnoringCase(std::string_view text, std::string_view lower_case);

}  // namespace ebb::env
