#include "experiments/aa_bench/live_load.h"

#include <utility>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "experiments/demo/steady_watch.h"
#include "experiments/support/scratch.h"
#include "fmt/format.h"

namespace ebb::aa_bench {
namespace {

constexpr uint64_t kFillTimeoutMs = 300'000;
constexpr uint64_t kDrainTimeoutMs = 180'000;
constexpr auto kShamBytes = static_cast<int64_t>(64 * kMiB);

demo::NodeShape Shape() {
  return {.volume_bytes = 256 * kMiB,
          .cache_bytes = 128 * kMiB,
          .capacity_bytes = 512 * kMiB,
          .capacity_devices = 2,
          .cache_shape = "nvme",
          .capacity_shape = "sata-ssd",
          .capacity_scale = 1,
          .device_class = "sata-ssd"};
}

demo::Phase Load() {
  return {.id = "aa",
          .title = "65/35 random read/write, 4 KiB, 4 outstanding on each of 2 disks",
          .fio = {"--bs=4k", "--iodepth=4", "--rw=randrw", "--rwmixread=65"}};
}

}  // namespace

ShamKnob LiveLoad::Sham() { return {"sequential_bypass_bytes", 0, kShamBytes}; }

absl::StatusOr<std::unique_ptr<LiveLoad>> LiveLoad::Start(const demo::Options& options,
                                                          const std::atomic<bool>& stop) {
  const demo::NodeShape shape = Shape();
  const uint64_t bytes = shape.cache_bytes + 2 * shape.volume_bytes;
  const std::string parent = options.scratch_parent.empty()
                                 ? experiments::ChooseScratchParent(bytes)
                                 : options.scratch_parent;
  EBB_ASSIGN_OR_RETURN(auto scratch, experiments::ScratchFolder::Make(parent));
  auto load = std::unique_ptr<LiveLoad>(new LiveLoad(std::move(scratch)));
  EBB_RETURN_IF_ERROR(load->Prepare(options, stop));
  return load;
}

absl::Status LiveLoad::Prepare(const demo::Options& options, const std::atomic<bool>& stop) {
  const demo::NodeShape shape = Shape();
  EBB_ASSIGN_OR_RETURN(node_, demo::DemoNode::Start(options, shape, scratch(), stop));
  for (const auto& command :
       {demo::FillCommand(node_->nbd_uri(), shape), demo::AgeCommand(node_->nbd_uri(), shape)}) {
    EBB_ASSIGN_OR_RETURN(fio_, experiments::ChildProcess::Start(command, scratch() + "/fill.log"));
    EBB_RETURN_IF_ERROR(fio_->Wait(kFillTimeoutMs, &stop));
  }
  EBB_RETURN_IF_ERROR(node_->Drain(kDrainTimeoutMs, stop));
  EBB_ASSIGN_OR_RETURN(fio_, experiments::ChildProcess::Start(
                                 demo::LoadCommand(options, Load(), node_->nbd_uri(), shape),
                                 scratch() + "/fio.log"));
  demo::SteadyWatch watch;
  for (bool steady = false; !steady;) {
    EBB_ASSIGN_OR_RETURN(const env::Observation seen, node_->environment().Observe());
    EBB_RETURN_IF_ERROR(CheckAlive());
    if (stop.load()) return absl::CancelledError("interrupted");
    steady = watch.Add(seen.metrics.dirty_share);
  }
  return absl::OkStatus();
}

absl::Status LiveLoad::CheckAlive() {
  if (!fio_->IsRunning()) {
    return absl::InternalError(fmt::format("the load ended: {}", fio_->LogTail()));
  }
  return node_->CheckHealthy();
}

LiveLoad::~LiveLoad() {
  fio_.reset();
  if (node_ != nullptr) node_->Stop();
}

}  // namespace ebb::aa_bench
