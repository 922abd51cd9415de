#include "base/trace/trace_summary.h"

#include <algorithm>
#include <unordered_set>

#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::trace {
namespace {

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double TraceSummary::ReadShare() const { return Share(reads, reads + writes); }

std::string TraceSummary::ToText() const {
  return fmt::format(
      "requests     {} in {}\n"
      "reads        {} ({}), {:.1f} % of reads and writes\n"
      "writes       {} ({}), {} of them FUA\n"
      "flushes      {}\n"
      "trims        {} ({})\n"
      "zeroes       {} ({})\n"
      "target size  at least {} bytes ({})\n"
      "blocks       {} written at {} places; {:.1f} % duplicate content, {:.1f} % zero\n"
      "LZ4          to {:.1f} % of the written bytes\n",
      requests(), FormatDurationNs(span_ns), reads, FormatBytes(read_bytes), 100 * ReadShare(),
      writes, FormatBytes(write_bytes), fua_requests, flushes, trims, FormatBytes(trim_bytes),
      zeroes, FormatBytes(zero_bytes), needed_bytes, FormatBytes(needed_bytes), written_blocks,
      touched_blocks, 100 * Share(duplicate_blocks, written_blocks),
      100 * Share(zero_blocks, written_blocks), 100 * compressed_share);
}

absl::StatusOr<TraceSummary> Summarize(TraceReader& reader) {
  TraceSummary summary;
  std::unordered_set<uint64_t> places;
  std::unordered_set<uint64_t> contents;
  double compressed_bytes = 0;
  TraceRecord record;
  for (;;) {
    EBB_ASSIGN_OR_RETURN(const bool more, reader.Next(&record));
    if (!more) break;
    summary.span_ns = record.time_ns;
    summary.needed_bytes = std::max(summary.needed_bytes, record.offset + record.bytes);
    summary.fua_requests += record.fua ? 1 : 0;
    switch (record.op) {
      case TraceOp::kRead:
        ++summary.reads;
        summary.read_bytes += record.bytes;
        break;
      case TraceOp::kWrite:
        ++summary.writes;
        summary.write_bytes += record.bytes;
        break;
      case TraceOp::kFlush:
        ++summary.flushes;
        break;
      case TraceOp::kTrim:
        ++summary.trims;
        summary.trim_bytes += record.bytes;
        break;
      case TraceOp::kWriteZeroes:
        ++summary.zeroes;
        summary.zero_bytes += record.bytes;
        break;
    }
    compressed_bytes += static_cast<double>(record.bytes) * record.compressed_per_mille / 1000;
    uint64_t block = record.offset / kTraceBlockBytes;
    for (const uint64_t fingerprint : record.fingerprints) {
      ++summary.written_blocks;
      places.insert(block++);
      if (fingerprint == 0) {
        ++summary.zero_blocks;
      } else if (!contents.insert(fingerprint).second) {
        ++summary.duplicate_blocks;
      }
    }
  }
  summary.touched_blocks = places.size();
  if (summary.write_bytes > 0) {
    summary.compressed_share = compressed_bytes / static_cast<double>(summary.write_bytes);
  }
  return summary;
}

}  // namespace ebb::trace
