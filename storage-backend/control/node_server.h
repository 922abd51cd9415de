// NodeServer is a whole node without its front end: volume, knobs, control socket, sampled stream.
//
// The nbdkit plugin, and any other front end, calls the verbs below; each runs on the caller's
// thread and counts as in flight while it does. Thread-safe. Start starts threads, so a front end
// that forks into the background calls it after the fork. OpenNode (node_open.h) makes one of a
// configuration file.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "storage-backend/control/drain_job.h"
#include "storage-backend/control/in_flight_meter.h"
#include "storage-backend/control/json_rpc_server.h"
#include "storage-backend/control/knob_controller.h"
#include "storage-backend/control/metrics_json.h"
#include "storage-backend/control/node_config.h"
#include "storage-backend/control/stream_sampler.h"
#include "storage-backend/device/device.h"
#include "storage-backend/device/shaped_device.h"
#include "storage-backend/volume/volume.h"

namespace ebb::storage {

struct NodeServerOptions {
  // Called on the control thread when a client asked the node to stop: the front end then ends,
  // and calls Close.
  std::function<void()> on_stop;
  // Sees every request before it is served (service_ns is 0), with the bytes of a write; from the
  // callers' threads.
  std::function<void(const StreamRecord&, std::span<const std::byte>)> observer;
  std::function<void(double)> recovery_progress;  // a share in [0, 1]; see OpenNode
  bool may_make = true;                           // see OpenNode
  Clock* clock = &RealClock();
};

// A device of the volume, for reports. The volume owns it.
struct DeviceView {
  std::string role;  // "cache", "capacity 1"
  Device* device = nullptr;
  const ShapedDevice* shaped = nullptr;  // the same, where it is shaped
};

class NodeServer {
 public:
  // Applies the incumbent to an open volume and serves the control socket. `devices` are those of
  // the volume, for reports. On an error the volume is closed again.
  static absl::StatusOr<std::unique_ptr<NodeServer>> Start(const NodeConfig& config,
                                                           std::unique_ptr<Volume> volume,
                                                           std::vector<DeviceView> devices,
                                                           NodeServerOptions options);
  ~NodeServer();

  absl::Status Read(uint64_t offset, std::span<std::byte> out);
  absl::Status Write(uint64_t offset, std::span<const std::byte> in, bool fua);
  absl::Status WriteZeroes(uint64_t offset, uint64_t bytes, bool fua);
  absl::Status Trim(uint64_t offset, uint64_t bytes, bool fua);
  absl::Status Flush();

  // Ends the control socket and closes the volume cleanly. No verb may run or follow.
  absl::Status Close();

  uint64_t volume_bytes() const { return volume_->volume_bytes(); }
  uint64_t requests_begun() const { return in_flight_.begun(); }
  uint64_t requests_in_flight() const { return in_flight_.in_flight(); }
  KnobController& knobs() { return *knobs_; }

 private:
  NodeServer(NodeConfig config, std::unique_ptr<Volume> volume, std::vector<DeviceView> devices,
             NodeServerOptions options);

  absl::Status StartServing();
  void Watch();
  // What the volume noticed by itself: one event and one log line each.
  void TellNotices();
  void StopThreads();
  TripSample SampleForTrips();
  template <typename Verb>
  absl::Status Serve(StreamRecord record, std::span<const std::byte> data, Verb verb);

  // node_methods.cc: the methods of PROTOCOL.md.
  std::map<std::string, RpcMethod, std::less<>> Methods();
  RpcReply NodeInfo();
  MetricsFrame Frame();
  RpcReply MetricsGet();
  RpcReply MetricsText();
  RpcReply KnobsSet(const std::string& params);
  RpcReply KnobsRenew(const std::string& params);
  RpcReply KnobsCommit(const std::string& params);
  RpcReply KnobsRevert(const std::string& params);
  RpcReply EventsGet(const std::string& params);
  RpcReply StreamGet(const std::string& params);
  RpcReply NodeDrain(const std::string& params);
  RpcReply NodeStop();

  const NodeConfig config_;
  const NodeServerOptions options_;
  Clock& clock_;
  const uint64_t started_ns_;
  const int64_t started_wall_ms_;
  const uint64_t epoch_;
  const KnobLimits limits_;

  std::unique_ptr<Volume> volume_;
  std::vector<DeviceView> devices_;
  InFlightMeter in_flight_;
  StreamSampler sampler_;
  std::unique_ptr<KnobController> knobs_;
  std::unique_ptr<DrainJob> drain_;
  std::unique_ptr<JsonRpcServer> server_;

  std::mutex watch_mutex_;
  std::condition_variable watch_wake_;
  bool stopping_ = false;
  std::thread watchdog_;
};

}  // namespace ebb::storage
