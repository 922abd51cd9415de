#include "env/twin/fit/nbd_cost.h"

#include <algorithm>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/units.h"
#include "env/trace/nbd_target.h"
#include "env/twin/fit/paced.h"
#include "env/twin/live_node.h"
#include "storage-backend/control/json_rpc_client.h"

namespace ebb::twin {
namespace {

constexpr size_t kWarmUps = 200;
constexpr size_t kPaced = 800;
constexpr size_t kLoop = 8'000;
constexpr uint64_t kBytes = 4096;
constexpr uint64_t kTimeoutNs = 10 * kNsPerS;

absl::Status ReadOnce(env::BlockTarget& target, std::span<std::byte> data) {
  env::TargetRequest request{
      .op = trace::TraceOp::kRead, .offset = 0, .bytes = kBytes, .data = data.data()};
  EBB_RETURN_IF_ERROR(target.Submit(&request));
  const uint64_t deadline_ns = RealClock().MonotonicNs() + kTimeoutNs;
  std::vector<env::TargetRequest*> done;
  while (done.empty()) {
    EBB_RETURN_IF_ERROR(target.Wait(deadline_ns, &done));
    if (RealClock().MonotonicNs() >= deadline_ns && done.empty()) {
      return absl::UnavailableError("the export does not answer within 10 s");
    }
  }
  return request.status;
}

absl::StatusOr<double> BusyCpuNs(storage::JsonRpcClient& client) {
  EBB_ASSIGN_OR_RETURN(const env::NodeSnapshot snapshot, TakeSnapshot(client));
  const uint64_t busy_ns = snapshot.Counter("busy_cpu_ns");
  if (busy_ns == 0) return absl::UnavailableError("the node does not tell its processor time");
  return static_cast<double>(busy_ns);
}

}  // namespace

absl::Status MeasureNbdCost(const std::string& uri, const std::string& control_socket,
                            NodeModel& node) {
  storage::JsonRpcClient control(control_socket);
  EBB_RETURN_IF_ERROR(BusyCpuNs(control).status());
  EBB_ASSIGN_OR_RETURN(const auto target, env::NbdTarget::Connect(uri));
  AlignedBuffer data(kBytes);
  for (size_t i = 0; i < kWarmUps; ++i) EBB_RETURN_IF_ERROR(ReadOnce(*target, data.span()));
  EBB_ASSIGN_OR_RETURN(const double before_ns, BusyCpuNs(control));
  for (size_t i = 0; i < kLoop; ++i) EBB_RETURN_IF_ERROR(ReadOnce(*target, data.span()));
  EBB_ASSIGN_OR_RETURN(const double after_ns, BusyCpuNs(control));
  EBB_ASSIGN_OR_RETURN(const double seen_ns, PacedMedianNs(kPaced, [&](size_t) {
                         return ReadOnce(*target, data.span());
                       }));
  const double verb_ns = node.cpu.read_request + node.cpu.read_block;
  const double added_ns = std::max(0.0, seen_ns - verb_ns);
  const double cpu_ns = (after_ns - before_ns) / static_cast<double>(kLoop) - verb_ns;
  node.cpu.nbd_request = std::clamp(cpu_ns, 0.0, added_ns);
  node.client_overhead_ns = static_cast<uint64_t>(added_ns - node.cpu.nbd_request);
  return absl::OkStatus();
}

}  // namespace ebb::twin
