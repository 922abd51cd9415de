#include "storage-backend/device/metered_device.h"

#include <utility>
#include <vector>

namespace ebb::storage {

class MeteredDevice::Queue final : public IoQueue {
 public:
  Queue(MeteredDevice& device, std::unique_ptr<IoQueue> inner)
      : device_(device), inner_(std::move(inner)) {}
  // What was never reaped is in flight no more.
  ~Queue() override {
    device_.in_flight_.fetch_sub(inner_->in_flight(), std::memory_order_relaxed);
  }

  void Submit(Io* io) override {
    device_.Begin(1);
    inner_->Submit(io);
  }
  void SubmitAll(std::span<Io* const> ios) override {
    device_.Begin(ios.size());
    inner_->SubmitAll(ios);
  }
  std::vector<Io*> Reap(size_t min_completions) override {
    std::vector<Io*> done = inner_->Reap(min_completions);
    for (const Io* io : done) device_.End(io->kind, io->status);
    return done;
  }
  size_t in_flight() const override { return inner_->in_flight(); }
  size_t depth() const override { return inner_->depth(); }
  void RegisterMemory(std::span<std::byte> memory) override { inner_->RegisterMemory(memory); }

 private:
  MeteredDevice& device_;
  const std::unique_ptr<IoQueue> inner_;
};

void MeteredDevice::End(Io::Kind kind, const absl::Status& status) {
  done_[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  if (!status.ok()) {
    const std::lock_guard lock(error_mutex_);
    errors_.fetch_add(1, std::memory_order_relaxed);
    last_error_ = status;
  }
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
}

absl::Status MeteredDevice::Read(uint64_t offset, std::span<std::byte> out) {
  Begin(1);
  absl::Status status = inner().Read(offset, out);
  End(Io::Kind::kRead, status);
  return status;
}

absl::Status MeteredDevice::Write(uint64_t offset, std::span<const std::byte> in) {
  Begin(1);
  absl::Status status = inner().Write(offset, in);
  End(Io::Kind::kWrite, status);
  return status;
}

absl::Status MeteredDevice::Flush() {
  Begin(1);
  absl::Status status = inner().Flush();
  End(Io::Kind::kFlush, status);
  return status;
}

std::unique_ptr<IoQueue> MeteredDevice::MakeQueue(size_t depth) {
  return std::make_unique<Queue>(*this, inner().MakeQueue(depth));
}

MeteredDevice::Reading MeteredDevice::reading() const {
  const auto done = [&](Io::Kind kind) {
    return done_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  };
  return {.in_flight = in_flight_.load(std::memory_order_relaxed),
          .reads = done(Io::Kind::kRead),
          .writes = done(Io::Kind::kWrite),
          .flushes = done(Io::Kind::kFlush),
          .errors = errors_.load(std::memory_order_relaxed)};
}

absl::Status MeteredDevice::last_error() const {
  const std::lock_guard lock(error_mutex_);
  return last_error_;
}

}  // namespace ebb::storage
