// FakeNode: a control socket with a scripted store behind it, for tests of the node adapter.
//
// Knobs, leases and events are the node's own code (KnobController); the numbers come from a model
// of waiting clients before a store whose service time is set by the test. Time is the test's
// ManualClock. Any reply can be altered on its way out.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "storage-backend/control/in_flight_meter.h"
#include "storage-backend/control/json_rpc_server.h"
#include "storage-backend/control/knob_controller.h"
#include "storage-backend/control/stream_sampler.h"

namespace ebb::env {

class FakeNode {
 public:
  // Serves on `folder`/control.sock until Stop.
  FakeNode(std::string folder, ManualClock& clock);
  ~FakeNode();

  std::string socket_path() const { return folder_ + "/control.sock"; }
  void Start();
  void Stop();
  // What the node's watchdog does every 100 ms.
  void Tick();

  // From the JSON text of a result to the one that is sent.
  using Alteration = std::function<std::string(const std::string& result)>;
  // Alters the results of `method`; nullptr ends that.
  void Alter(const std::string& method, Alteration alteration);
  void set_service_ns(double service_ns) { service_ns_ = service_ns; }
  // Somebody else sets a knob.
  void SetFromOutside(storage::KnobId knob, int64_t value);

 private:
  struct Running {
    uint64_t start_ns = 0;
    uint64_t end_ns = 0;
    storage::StreamRecord record;
  };
  struct Op {
    uint64_t ops = 0;
    uint64_t bytes = 0;
    LatencyHistogram latency;
  };

  std::map<std::string, storage::RpcMethod, std::less<>> Methods();
  storage::RpcMethod Wrapped(std::string name, storage::RpcMethod method);
  storage::RpcReply Info() const;
  storage::RpcReply Metrics();
  storage::RpcReply Set(const std::string& params);
  storage::RpcReply Stream(const std::string& params);
  void RunClientsUntil(uint64_t now_ns);

  const std::string folder_;
  ManualClock& clock_;
  Rng rng_{42};
  std::mutex mutex_;  // methods run on the server's thread, the test on its own
  std::map<std::string, Alteration> alterations_;
  std::atomic<double> service_ns_{5e6};
  uint64_t epoch_ = 0;
  uint64_t started_ns_ = 0;
  std::vector<Running> clients_;  // one request each
  Op read_;
  Op write_;
  storage::InFlightMeter in_flight_;
  std::unique_ptr<storage::StreamSampler> stream_;
  std::unique_ptr<storage::KnobController> knobs_;
  std::unique_ptr<storage::JsonRpcServer> server_;
};

}  // namespace ebb::env
