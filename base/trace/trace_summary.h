// TraceSummary: what a trace holds, in one pass; for reports and for choosing a replay's size.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/trace/trace_reader.h"

namespace ebb::trace {

struct TraceSummary {
  uint64_t reads = 0;
  uint64_t writes = 0;
  uint64_t flushes = 0;
  uint64_t trims = 0;
  uint64_t zeroes = 0;
  uint64_t fua_requests = 0;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;
  uint64_t trim_bytes = 0;
  uint64_t zero_bytes = 0;
  uint64_t span_ns = 0;           // time of the last request
  uint64_t needed_bytes = 0;      // the highest byte touched: the least size of a replay's target
  uint64_t written_blocks = 0;    // 4 KiB blocks in writes, repeats counted
  uint64_t touched_blocks = 0;    // distinct places written
  uint64_t duplicate_blocks = 0;  // written blocks whose content (not zero) was written before
  uint64_t zero_blocks = 0;       // written blocks of zeroes
  double compressed_share = 0;    // LZ4 output over input, by bytes

  uint64_t requests() const { return reads + writes + flushes + trims + zeroes; }
  // Reads among reads and writes.
  double ReadShare() const;
  // Several lines for people.
  std::string ToText() const;
};

// Reads `reader` to its end. Memory grows with the distinct blocks and contents (16 bytes each).
absl::StatusOr<TraceSummary> Summarize(TraceReader& reader);

}  // namespace ebb::trace
