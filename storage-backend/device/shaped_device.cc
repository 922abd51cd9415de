#include "storage-backend/device/shaped_device.h"

#include <algorithm>
#include <queue>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/prctl.h>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"
#include "storage-backend/device/io_check.h"

namespace ebb::storage {
namespace {

// Waking takes 25 to 45 us on virtual machines even with the finest timer slack, twice the service
// time of an NVMe write. So sleep that much less, as measured on this thread, and spin the rest.
class PreciseSleeper {
 public:
  PreciseSleeper() { prctl(PR_SET_TIMERSLACK, 1'000UL); }

  void SleepUntil(Clock& clock, uint64_t deadline_ns) {
    const auto early_ns = static_cast<uint64_t>(overshoot_ns_);
    const uint64_t now_ns = clock.MonotonicNs();
    if (deadline_ns > now_ns + early_ns) {
      const uint64_t wake_ns = deadline_ns - early_ns;
      clock.SleepUntilNs(wake_ns);
      const double overshoot_ns = static_cast<double>(clock.MonotonicNs() - wake_ns);
      overshoot_ns_ += 0.1 * (std::min(overshoot_ns, kOvershootMaxNs) - overshoot_ns_);
    }
    while (clock.MonotonicNs() < deadline_ns) std::this_thread::yield();
  }

 private:
  static constexpr double kOvershootMaxNs = 60'000;
  double overshoot_ns_ = 20'000;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShapedDevice>> ShapedDevice::Make(std::unique_ptr<Device> inner,
                                                                 const ShapeOptions& options,
                                                                 Clock& clock) {
  EBB_ASSIGN_OR_RETURN(auto model,
                       MakeServiceModel(options.model, {.device_bytes = inner->size_bytes(),
                                                        .seed = options.seed,
                                                        .scale = options.scale}));
  return std::unique_ptr<ShapedDevice>(
      new ShapedDevice(std::move(inner), options, std::move(model), clock));
}

ShapedDevice::ShapedDevice(std::unique_ptr<Device> inner, ShapeOptions options,
                           std::unique_ptr<ServiceModel> model, Clock& clock)
    : inner_(std::move(inner)),
      options_(std::move(options)),
      clock_(clock),
      model_(std::move(model)) {}

uint64_t ShapedDevice::Begin(Io::Kind kind, uint64_t offset, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  return model_->CompletionNs(clock_.MonotonicNs(), {kind, offset, bytes});
}

void ShapedDevice::CountInnerDone(uint64_t deadline_ns) {
  transfers_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t now_ns = clock_.MonotonicNs();
  if (now_ns <= deadline_ns) return;
  late_.fetch_add(1, std::memory_order_relaxed);
  late_ns_.fetch_add(now_ns - deadline_ns, std::memory_order_relaxed);
}

void ShapedDevice::SleepUntil(uint64_t deadline_ns) {
  if (&clock_ != &RealClock()) return clock_.SleepUntilNs(deadline_ns);
  thread_local PreciseSleeper sleeper;
  sleeper.SleepUntil(clock_, deadline_ns);
}

absl::Status ShapedDevice::Finish(absl::Status status, uint64_t deadline_ns) {
  CountInnerDone(deadline_ns);
  SleepUntil(deadline_ns);
  return status;
}

absl::Status ShapedDevice::Read(uint64_t offset, std::span<std::byte> out) {
  EBB_RETURN_IF_ERROR(CheckTransfer(offset, out.size(), out.data(), size_bytes()));
  const uint64_t deadline_ns = Begin(Io::Kind::kRead, offset, out.size());
  return Finish(inner_->Read(offset, out), deadline_ns);
}

absl::Status ShapedDevice::Write(uint64_t offset, std::span<const std::byte> in) {
  EBB_RETURN_IF_ERROR(CheckTransfer(offset, in.size(), in.data(), size_bytes()));
  const uint64_t deadline_ns = Begin(Io::Kind::kWrite, offset, in.size());
  return Finish(inner_->Write(offset, in), deadline_ns);
}

absl::Status ShapedDevice::Flush() {
  const uint64_t deadline_ns = Begin(Io::Kind::kFlush, 0, 0);
  return Finish(inner_->Flush(), deadline_ns);
}

absl::Status ShapedDevice::Discard(uint64_t offset, uint64_t bytes) {
  return inner_->Discard(offset, bytes);
}

std::string ShapedDevice::Describe() const {
  const std::string faster =
      options_.scale == 1 ? "" : fmt::format(" made {} times faster", options_.scale);
  return fmt::format("{}, shaped as {}{}", inner_->Describe(), options_.model, faster);
}

ShapedDevice::OverrunCounts ShapedDevice::Overruns() const {
  return {.transfers = transfers_.load(std::memory_order_relaxed),
          .late = late_.load(std::memory_order_relaxed),
          .late_ns = late_ns_.load(std::memory_order_relaxed)};
}

// A transfer passes two stages: the inner queue does it, then `held_` keeps it until its time.
class ShapedDevice::Queue final : public IoQueue {
 public:
  Queue(ShapedDevice& device, size_t depth)
      : device_(device), inner_(device.inner_->MakeQueue(depth)) {}

  void Submit(Io* io) override {
    Begin(io);
    inner_->Submit(io);
  }

  void SubmitAll(std::span<Io* const> ios) override {
    for (Io* io : ios) Begin(io);
    inner_->SubmitAll(ios);
  }

  void RegisterMemory(std::span<std::byte> memory) override { inner_->RegisterMemory(memory); }

  std::vector<Io*> Reap(size_t min_completions) override {
    EBB_CHECK(min_completions <= in_flight());
    std::vector<Io*> ready;
    for (;;) {
      Collect(0);
      const uint64_t now_ns = device_.clock_.MonotonicNs();
      while (!held_.empty() && held_.top().deadline_ns <= now_ns) {
        ready.push_back(held_.top().io);
        held_.pop();
      }
      if (ready.size() >= min_completions) return ready;
      if (held_.empty()) {
        Collect(1);
      } else {
        device_.SleepUntil(held_.top().deadline_ns);
      }
    }
  }

  size_t in_flight() const override { return inner_->in_flight() + held_.size(); }
  size_t depth() const override { return inner_->depth(); }

 private:
  struct Held {
    uint64_t deadline_ns;
    uint64_t order;  // equal deadlines leave in the order of their submission
    Io* io;
    bool operator>(const Held& other) const {
      return std::pair(deadline_ns, order) > std::pair(other.deadline_ns, other.order);
    }
  };

  void Begin(Io* io) {
    EBB_CHECK(in_flight() < depth());
    // A request that the inner device will refuse must not move the modelled head.
    const bool valid = io->kind == Io::Kind::kFlush ||
                       CheckTransfer(io->offset, io->bytes, io->data, device_.size_bytes()).ok();
    const uint64_t deadline_ns =
        valid ? device_.Begin(io->kind, io->offset, io->bytes) : device_.clock_.MonotonicNs();
    deadlines_[io] = {deadline_ns, next_order_++, io};
  }

  void Collect(size_t min_completions) {
    for (Io* io : inner_->Reap(min_completions)) {
      const auto it = deadlines_.find(io);
      EBB_CHECK(it != deadlines_.end());
      device_.CountInnerDone(it->second.deadline_ns);
      held_.push(it->second);
      deadlines_.erase(it);
    }
  }

  ShapedDevice& device_;
  const std::unique_ptr<IoQueue> inner_;
  uint64_t next_order_ = 0;
  std::unordered_map<Io*, Held> deadlines_;  // of those in the inner queue
  std::priority_queue<Held, std::vector<Held>, std::greater<>> held_;
};

std::unique_ptr<IoQueue> ShapedDevice::MakeQueue(size_t depth) {
  return std::make_unique<Queue>(*this, depth);
}

}  // namespace ebb::storage
