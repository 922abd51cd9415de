// NodeTarget replays onto a store in this process: what nbdkit does to a node, without NBD.
//
// Requests go through the node's own verbs on as many threads as its front end has, so that its
// metrics, its sampled stream and its knobs are those of a served node; what waits for a thread is
// in flight.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "env/trace/block_target.h"

namespace ebb::storage {
class NodeServer;
}

namespace ebb::env {

class NodeTarget final : public BlockTarget {
 public:
  // `node` outlives the target and is closed by its owner.
  NodeTarget(storage::NodeServer& node, int threads);
  // Waits for what is in flight.
  ~NodeTarget() override;
  NodeTarget(const NodeTarget&) = delete;
  NodeTarget& operator=(const NodeTarget&) = delete;

  uint64_t size_bytes() const override;
  uint64_t RequestBytesMax(trace::TraceOp op) const override;
  bool Supports(trace::TraceOp) const override { return true; }
  absl::Status Submit(TargetRequest* request) override;
  absl::Status Wait(uint64_t deadline_ns, std::vector<TargetRequest*>* done) override;
  std::string Describe() const override { return "a node in this process"; }

 private:
  void Work();
  absl::Status Execute(const TargetRequest& request);

  storage::NodeServer& node_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable answer_;
  std::deque<TargetRequest*> waiting_;
  std::vector<TargetRequest*> done_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ebb::env
