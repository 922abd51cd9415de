#include "api/cli/stream_recorder.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/units.h"
#include "env/node/stream_trace.h"

namespace ebb::cli {
namespace {

using trace::TraceRecord;

// Requests that end within so long of each other are put into order.
constexpr uint64_t kReorderNs = 5 * kNsPerS;
}  // namespace

absl::Status StreamRecorder::Take(const env::StreamSlice& slice) {
  uint64_t newest_ns = 0;
  for (const env::StreamEntry& entry : slice.entries) {
    newest_ns = std::max(newest_ns, entry.time_ns + entry.service_ns);
    waiting_.emplace(entry.time_ns, env::ToTraceRecord(entry));
  }
  counts_.dropped += slice.dropped;
  if (!slice.entries.empty()) {
    counts_.sample_rate_min = std::min(counts_.sample_rate_min, slice.sample_rate);
  }
  return newest_ns > kReorderNs ? WriteUpTo(newest_ns - kReorderNs) : absl::OkStatus();
}

absl::Status StreamRecorder::WriteUpTo(uint64_t time_ns) {
  while (!waiting_.empty() && waiting_.begin()->first <= time_ns) {
    TraceRecord record = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    if (!begun_) begin_ns_ = record.time_ns;
    begun_ = true;
    const uint64_t relative_ns = record.time_ns > begin_ns_ ? record.time_ns - begin_ns_ : 0;
    if (relative_ns < written_ns_ || record.time_ns < begin_ns_) ++counts_.late;
    written_ns_ = std::max(written_ns_, relative_ns);
    record.time_ns = written_ns_;
    ++counts_.records;
    EBB_RETURN_IF_ERROR(writer_->Append(std::move(record)));
  }
  return absl::OkStatus();
}

absl::Status StreamRecorder::Close() {
  EBB_RETURN_IF_ERROR(WriteUpTo(~uint64_t{0}));
  return writer_->Close();
}

}  // namespace ebb::cli
