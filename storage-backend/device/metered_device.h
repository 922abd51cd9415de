// MeteredDevice counts what goes through a device: the node's metrics and its health are read here.
//
// A transfer is in flight from its submission until it is handed back. Costs three atomic additions
// a transfer. Thread-safe as the inner device is.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "storage-backend/device/device_wrapper.h"

namespace ebb::storage {

class MeteredDevice final : public DeviceWrapper {
 public:
  // Cumulative, but for in_flight. What failed counts as done.
  struct Reading {
    uint64_t in_flight = 0;
    uint64_t reads = 0;
    uint64_t writes = 0;
    uint64_t flushes = 0;
    uint64_t errors = 0;
    uint64_t done() const { return reads + writes + flushes; }
  };

  explicit MeteredDevice(std::unique_ptr<Device> inner) : DeviceWrapper(std::move(inner)) {}

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override;
  absl::Status Write(uint64_t offset, std::span<const std::byte> in) override;
  absl::Status Flush() override;
  // The inner device's own: transfers stay asynchronous.
  std::unique_ptr<IoQueue> MakeQueue(size_t depth) override;
  bool in_memory() const override { return inner().in_memory(); }

  Reading reading() const;
  // Of the last transfer that failed; OK when none did.
  absl::Status last_error() const;

 private:
  class Queue;

  void Begin(uint64_t transfers) { in_flight_.fetch_add(transfers, std::memory_order_relaxed); }
  void End(Io::Kind kind, const absl::Status& status);

  std::atomic<uint64_t> in_flight_{0};
  std::array<std::atomic<uint64_t>, 3> done_{};  // by Io::Kind
  std::atomic<uint64_t> errors_{0};
  mutable std::mutex error_mutex_;
  absl::Status last_error_;
};

}  // namespace ebb::storage
