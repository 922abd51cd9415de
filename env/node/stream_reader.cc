#include "env/node/stream_reader.h"

#include <limits>

#include "base/status.h"
#include "storage-backend/control/json_rpc_client.h"

namespace ebb::env {
namespace {

constexpr uint64_t kRecordsPerCall = 10'000;
// Behind every request: the answer is empty and says where the stream ends.
constexpr uint64_t kBehindAll = std::numeric_limits<int64_t>::max();

}  // namespace

absl::StatusOr<StreamSlice> StreamReader::Ask(uint64_t after, uint64_t max) {
  EBB_ASSIGN_OR_RETURN(const std::string json, node_.Call("stream.get", EncodeAfter(after, max)));
  return DecodeStream(json);
}

absl::StatusOr<uint64_t> StreamReader::End() {
  EBB_ASSIGN_OR_RETURN(const StreamSlice slice, Ask(kBehindAll, 1));
  return slice.next;
}

absl::Status StreamReader::SkipToEnd() {
  EBB_ASSIGN_OR_RETURN(next_, End());
  return absl::OkStatus();
}

absl::Status StreamReader::ReadToEnd(const std::function<absl::Status(const StreamSlice&)>& take) {
  EBB_ASSIGN_OR_RETURN(const uint64_t end, End());
  if (end < next_) next_ = 0;  // a node that started anew counts anew
  while (next_ < end) {
    EBB_ASSIGN_OR_RETURN(const StreamSlice slice, Ask(next_, kRecordsPerCall));
    if (slice.entries.empty()) return absl::OkStatus();  // it started anew meanwhile
    // Beyond `end` where requests came in the meantime.
    next_ = slice.next;
    EBB_RETURN_IF_ERROR(take(slice));
  }
  return absl::OkStatus();
}

}  // namespace ebb::env
