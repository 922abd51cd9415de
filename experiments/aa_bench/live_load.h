// LiveLoad: a real node behind nbdkit on shaped files, filled, aged and under fio's load until the
// object ends.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/aa_bench/null_agent.h"
#include "experiments/demo/demo_node.h"
#include "experiments/support/child_process.h"
#include "experiments/support/scratch.h"

namespace ebb::aa_bench {

class LiveLoad {
 public:
  // `options`: bin_dir, plugin_path and scratch_parent. Returns when the cache is as full as this
  // load fills it: a node that still fills up gets slower by itself.
  static absl::StatusOr<std::unique_ptr<LiveLoad>> Start(const demo::Options& options,
                                                         const std::atomic<bool>& stop);
  ~LiveLoad();
  LiveLoad(const LiveLoad&) = delete;
  LiveLoad& operator=(const LiveLoad&) = delete;

  std::string control_socket() const { return node_->control_socket(); }
  const std::string& scratch() const { return scratch_->path(); }
  // OK while node and load run and no device or checksum failed.
  absl::Status CheckAlive();
  // Its reads are random requests of 4 KiB: none is ever part of a stream as long as either value.
  static ShamKnob Sham();

 private:
  explicit LiveLoad(std::unique_ptr<experiments::ScratchFolder> scratch)
      : scratch_(std::move(scratch)) {}
  absl::Status Prepare(const demo::Options& options, const std::atomic<bool>& stop);

  const std::unique_ptr<experiments::ScratchFolder> scratch_;
  std::unique_ptr<demo::DemoNode> node_;
  std::unique_ptr<experiments::ChildProcess> fio_;
};

}  // namespace ebb::aa_bench
