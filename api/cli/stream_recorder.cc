#include "api/cli/stream_recorder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::cli {
namespace {

using Json = nlohmann::json;
using trace::TraceOp;
using trace::TraceRecord;

// Requests that end within so long of each other are put into order.
constexpr uint64_t kReorderNs = 5 * kNsPerS;
// Columns of a row, without and with content.
constexpr size_t kColumns = 5;
constexpr size_t kColumnsWithContent = 7;

// The node's fingerprint has 53 bits and its compressibility apart; a trace's has both in one.
uint64_t TraceFingerprint(uint64_t fingerprint, uint64_t compressed_per_mille) {
  if (fingerprint == 0) return 0;
  return fingerprint << 4 | std::min<uint64_t>(compressed_per_mille * 16 / 1000, 15);
}

absl::Status Nonsense(std::string_view what) {
  return absl::DataLossError(fmt::format("the node's stream: {}", what));
}

absl::StatusOr<StreamRecorder::Position> PositionOf(const Json& slice) {
  if (!slice.at("next").is_number_unsigned()) return Nonsense("'next' is no number");
  return StreamRecorder::Position{.next = slice.at("next").get<uint64_t>(),
                                  .count = slice.at("records").size()};
}

absl::StatusOr<TraceRecord> DecodeRow(const Json& row) {
  if (!row.is_array() || (row.size() != kColumns && row.size() != kColumnsWithContent)) {
    return Nonsense("a row has the wrong number of columns");
  }
  for (size_t i = 0; i < row.size(); ++i) {
    const bool right = i == 1 ? row[i].is_string() : row[i].is_number_unsigned();
    if (!right) return Nonsense("a column has the wrong type");
  }
  const auto op = row.at(1).get<std::string>();
  if (op.size() != 1 || std::string_view("RWFTZ").find(op[0]) == std::string_view::npos) {
    return Nonsense("there is no such operation");
  }
  TraceRecord record{.time_ns = row.at(0).get<uint64_t>(),
                     .op = static_cast<TraceOp>(op[0]),
                     .offset = row.at(2).get<uint64_t>(),
                     .bytes = row.at(3).get<uint64_t>()};
  record.latency_ns = row.at(4).get<uint64_t>();
  // The content told is that of the first block.
  const bool one_block = trace::BlocksTouched(record.offset, record.bytes) == 1;
  if (row.size() == kColumnsWithContent && record.op == TraceOp::kWrite && one_block) {
    record.compressed_per_mille =
        static_cast<uint16_t>(std::min<uint64_t>(row.at(6).get<uint64_t>(), 1000));
    record.fingerprints = {
        TraceFingerprint(row.at(5).get<uint64_t>(), record.compressed_per_mille)};
  }
  return record;
}

}  // namespace

absl::StatusOr<StreamRecorder::Position> StreamRecorder::Skip(const std::string& stream_json) {
  try {
    return PositionOf(Json::parse(stream_json));
  } catch (const nlohmann::json::exception& error) {
    return Nonsense(error.what());
  }
}

absl::StatusOr<StreamRecorder::Position> StreamRecorder::Take(const std::string& stream_json) {
  uint64_t newest_ns = 0;
  Position position;
  try {
    const Json slice = Json::parse(stream_json);
    EBB_ASSIGN_OR_RETURN(position, PositionOf(slice));
    for (const Json& row : slice.at("records")) {
      EBB_ASSIGN_OR_RETURN(TraceRecord record, DecodeRow(row));
      newest_ns = std::max(newest_ns, record.time_ns + record.latency_ns);
      waiting_.emplace(record.time_ns, std::move(record));
    }
    counts_.dropped += slice.at("dropped").get<uint64_t>();
    if (position.count > 0) {
      counts_.sample_rate_min =
          std::min(counts_.sample_rate_min, slice.at("sample_rate").get<double>());
    }
  } catch (const nlohmann::json::exception& error) {
    return Nonsense(error.what());
  }
  if (newest_ns > kReorderNs) EBB_RETURN_IF_ERROR(WriteUpTo(newest_ns - kReorderNs));
  return position;
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
