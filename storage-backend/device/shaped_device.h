// ShapedDevice lets any Device take the time that a named service model gives each request.
//
// So an experiment on one cheap disk behaves like a tiered node, repeatably. A blocking verb sleeps
// on the caller's thread until its completion time; a queue holds a transfer back in Reap, so that
// parallel requests overlap as the model allows. Shaping can only slow down: where the inner device
// was slower than the model, Overruns counts it, and a report should say so. Discards are not
// shaped. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "storage-backend/device/device.h"
#include "storage-backend/device/service_model.h"

namespace ebb::storage {

struct ShapeOptions {
  std::string model;  // see service_model.h
  uint64_t seed = 1;
  double scale = 1;  // this many times faster than the model; Describe says so
};

class ShapedDevice final : public Device {
 public:
  struct OverrunCounts {
    uint64_t transfers = 0;  // shaped in all, flushes included
    uint64_t late = 0;       // of those, done by the inner device only after the model's time
    uint64_t late_ns = 0;    // and by how much in sum
  };

  // `clock` outlives the device. InvalidArgument as MakeServiceModel.
  static absl::StatusOr<std::unique_ptr<ShapedDevice>> Make(std::unique_ptr<Device> inner,
                                                            const ShapeOptions& options,
                                                            Clock& clock = RealClock());

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override;
  absl::Status Write(uint64_t offset, std::span<const std::byte> in) override;
  absl::Status Flush() override;
  absl::Status Discard(uint64_t offset, uint64_t bytes) override;
  std::unique_ptr<IoQueue> MakeQueue(size_t depth) override;
  uint64_t size_bytes() const override { return inner_->size_bytes(); }
  uint32_t block_bytes() const override { return inner_->block_bytes(); }
  absl::StatusOr<uint64_t> AllocatedBytes() override { return inner_->AllocatedBytes(); }
  std::string Describe() const override;

  OverrunCounts Overruns() const;
  const ShapeOptions& options() const { return options_; }

 private:
  class Queue;

  ShapedDevice(std::unique_ptr<Device> inner, ShapeOptions options,
               std::unique_ptr<ServiceModel> model, Clock& clock);

  // The model's completion time of a request that begins now.
  uint64_t Begin(Io::Kind kind, uint64_t offset, uint64_t bytes);
  // Counts a transfer whose inner part is done.
  void CountInnerDone(uint64_t deadline_ns);
  void SleepUntil(uint64_t deadline_ns);
  absl::Status Finish(absl::Status status, uint64_t deadline_ns);

  const std::unique_ptr<Device> inner_;
  const ShapeOptions options_;
  Clock& clock_;
  std::mutex mutex_;  // guards model_
  const std::unique_ptr<ServiceModel> model_;
  std::atomic<uint64_t> transfers_{0};
  std::atomic<uint64_t> late_{0};
  std::atomic<uint64_t> late_ns_{0};
};

}  // namespace ebb::storage
