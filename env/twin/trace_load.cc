#include "env/twin/trace_load.h"

#include <algorithm>

#include "base/status.h"
#include "base/units.h"
#include "env/trace/trace_source.h"
#include "fmt/format.h"

namespace ebb::twin {
namespace {

constexpr uint64_t kPageBytes = uint64_t{kPageBlocks} * kBlockBytes;

// Calls `visit` with each request; false from it ends the reading.
template <typename Visit>
absl::Status ForEach(env::TraceSource& source, uint64_t records_max, const Visit& visit) {
  trace::TraceRecord record;
  for (uint64_t count = 0; records_max == 0 || count < records_max; ++count) {
    EBB_ASSIGN_OR_RETURN(const bool more, source.Next(&record));
    if (!more) break;
    visit(record);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RequestStream> LoadTrace(const std::string& path, const TraceLoadOptions& options,
                                        bool needs_times) {
  if (!(options.speed > 0)) return absl::InvalidArgumentError("a speed is above 0");
  EBB_ASSIGN_OR_RETURN(auto source, env::OpenTrace(path, options.format));
  if (needs_times && !source->traits().has_times) {
    return absl::InvalidArgumentError(
        fmt::format("{} has no times: say how many clients wait for each other's answers", path));
  }
  uint64_t volume_bytes = options.volume_bytes;
  if (volume_bytes == 0) volume_bytes = source->traits().volume_bytes;
  if (volume_bytes == 0) {
    if (path == "-")
      return absl::InvalidArgumentError("say the volume's size for a trace from a pipe");
    EBB_RETURN_IF_ERROR(ForEach(*source, options.records_max, [&](const trace::TraceRecord& one) {
      volume_bytes = std::max(volume_bytes, one.offset + one.bytes);
    }));
    EBB_ASSIGN_OR_RETURN(source, env::OpenTrace(path, options.format));
  }
  volume_bytes =
      std::max<uint64_t>((volume_bytes + kPageBytes - 1) / kPageBytes * kPageBytes, 16 * kMiB);
  RequestStream load(volume_bytes);
  uint64_t end_ns = 0;
  EBB_RETURN_IF_ERROR(ForEach(*source, options.records_max, [&](trace::TraceRecord& one) {
    one.time_ns = static_cast<uint64_t>(static_cast<double>(one.time_ns) / options.speed);
    end_ns = one.time_ns;
    load.Add(one);
  }));
  load.Close(end_ns + 1);
  if (load.request_count() == 0) {
    return absl::InvalidArgumentError(fmt::format("{} has no requests", path));
  }
  return load;
}

absl::StatusOr<RequestStream> SynthesiseLoad(const env::SynthOptions& options,
                                             uint64_t volume_bytes) {
  EBB_ASSIGN_OR_RETURN(const auto source, env::MakeSynthSource(options));
  if (source->traits().volume_bytes > volume_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("a load that reaches to {} does not fit a volume of {}",
                    FormatBytes(source->traits().volume_bytes), FormatBytes(volume_bytes)));
  }
  RequestStream load(volume_bytes);
  uint64_t last_ns = 0;
  EBB_RETURN_IF_ERROR(ForEach(*source, 0, [&](const trace::TraceRecord& one) {
    last_ns = one.time_ns;
    load.Add(one);
  }));
  uint64_t end_ns = options.duration_ns;
  if (end_ns == 0) {
    for (const env::SynthPhase& phase : options.phases) end_ns += phase.duration_ns;
  }
  load.Close(options.requests_max > 0 ? last_ns + 1 : end_ns);
  return load;
}

}  // namespace ebb::twin
