#include "storage-backend/capacity/extent_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "storage-backend/capacity/extent.h"

namespace ebb::storage {

ExtentWriter::ExtentWriter(std::vector<Device*> devices, uint64_t extent_bytes_max)
    : devices_(std::move(devices)),
      extent_bytes_max_(extent_bytes_max),
      queues_(devices_.size()),
      written_(devices_.size(), false) {}

ExtentWriter::~ExtentWriter() { Abandon(); }

IoQueue& ExtentWriter::Queue(size_t device) {
  if (queues_[device] == nullptr) {
    queues_[device] = devices_[device]->MakeQueue(kParallelismMax + 1);
  }
  return *queues_[device];
}

size_t ExtentWriter::InFlight() const {
  size_t in_flight = 0;
  for (const auto& queue : queues_) in_flight += queue == nullptr ? 0 : queue->in_flight();
  return in_flight;
}

void ExtentWriter::Collect(bool wait) {
  IoQueue* busiest = nullptr;
  for (const auto& queue : queues_) {
    if (queue == nullptr) continue;
    if (busiest == nullptr || queue->in_flight() > busiest->in_flight()) busiest = queue.get();
  }
  bool any = false;
  const auto take = [&](IoQueue& queue, size_t min_completions) {
    for (Io* const io : queue.Reap(min_completions)) {
      any = true;
      static_cast<Slot*>(io->context)->in_flight = false;
      if (!io->status.ok() && failure_.ok()) failure_ = io->status;
    }
  };
  for (const auto& queue : queues_) {
    if (queue != nullptr) take(*queue, 0);
  }
  if (wait && !any && busiest != nullptr && busiest->in_flight() > 0) take(*busiest, 1);
}

absl::StatusOr<std::span<std::byte>> ExtentWriter::Buffer(int parallelism) {
  const size_t wanted = static_cast<size_t>(std::max(parallelism, 1)) * devices_.size();
  const size_t limit = std::min<size_t>(wanted, kParallelismMax);
  Collect(false);
  while (InFlight() >= limit) Collect(true);
  if (!failure_.ok()) return failure_;
  const auto idle =
      std::find_if(slots_.begin(), slots_.end(), [](const auto& slot) { return !slot->in_flight; });
  if (idle != slots_.end()) {
    current_ = idle->get();
  } else {
    slots_.push_back(std::make_unique<Slot>());
    current_ = slots_.back().get();
    current_->buffer = AlignedBuffer(ExtentBuilder::BufferBytes(extent_bytes_max_));
  }
  return current_->buffer.span();
}

void ExtentWriter::Write(size_t device, uint64_t offset, std::span<const std::byte> bytes) {
  EBB_CHECK(current_ != nullptr && !current_->in_flight);
  const std::span<std::byte> buffer = current_->buffer.span();
  EBB_CHECK(bytes.data() >= buffer.data() &&
            bytes.data() + bytes.size() <= buffer.data() + buffer.size());
  current_->io = {.kind = Io::Kind::kWrite,
                  .offset = offset,
                  .data = buffer.data() + (bytes.data() - buffer.data()),
                  .bytes = bytes.size(),
                  .context = current_,
                  .status = absl::OkStatus()};
  current_->in_flight = true;
  written_[device] = true;
  Queue(device).Submit(&current_->io);
  current_ = nullptr;
}

absl::Status ExtentWriter::Finish() {
  while (InFlight() > 0) Collect(true);
  std::vector<Slot> flushes(devices_.size());
  for (size_t device = 0; device < devices_.size(); ++device) {
    if (!written_[device] || !failure_.ok()) continue;
    flushes[device].io = {.kind = Io::Kind::kFlush, .context = &flushes[device]};
    Queue(device).Submit(&flushes[device].io);
  }
  while (InFlight() > 0) Collect(true);
  absl::Status result = std::exchange(failure_, absl::OkStatus());
  written_.assign(devices_.size(), false);
  return result;
}

void ExtentWriter::Abandon() {
  while (InFlight() > 0) Collect(true);
  failure_ = absl::OkStatus();
  current_ = nullptr;
  written_.assign(devices_.size(), false);
}

}  // namespace ebb::storage
