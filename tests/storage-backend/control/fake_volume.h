// FakeVolume is a Volume in memory with numbers that a test sets by hand.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "storage-backend/volume/volume.h"

namespace ebb::storage {

class FakeVolume final : public Volume {
 public:
  explicit FakeVolume(uint64_t bytes) : data_(bytes) {}

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override {
    const std::lock_guard lock(mutex_);
    if (fail_) return absl::DataLossError("block 7: checksum mismatch");
    std::copy_n(data_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    metrics_.read.ops += 1;
    metrics_.read.bytes += out.size();
    metrics_.read.latency.Record(1000);
    return absl::OkStatus();
  }
  absl::Status Write(uint64_t offset, std::span<const std::byte> in, bool) override {
    const std::lock_guard lock(mutex_);
    std::copy(in.begin(), in.end(), data_.begin() + static_cast<std::ptrdiff_t>(offset));
    metrics_.write.ops += 1;
    return absl::OkStatus();
  }
  absl::Status WriteZeroes(uint64_t offset, uint64_t bytes, bool) override {
    const std::lock_guard lock(mutex_);
    std::fill_n(data_.begin() + static_cast<std::ptrdiff_t>(offset), bytes, std::byte{0});
    return absl::OkStatus();
  }
  absl::Status Trim(uint64_t offset, uint64_t bytes, bool fua) override {
    return WriteZeroes(offset, bytes, fua);
  }
  absl::Status Flush() override { return absl::OkStatus(); }

  absl::Status Apply(const Setting& setting) override {
    const std::lock_guard lock(mutex_);
    setting_ = setting;
    return absl::OkStatus();
  }
  Setting CurrentSetting() const override {
    const std::lock_guard lock(mutex_);
    return setting_;
  }
  VolumeMetrics Metrics() override {
    const std::lock_guard lock(mutex_);
    return metrics_;
  }
  std::vector<VolumeNotice> CheckHealth() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(notices_, {});
  }
  void AddNotice(VolumeNotice notice) {
    const std::lock_guard lock(mutex_);
    notices_.push_back(std::move(notice));
  }
  // Empties one block a call of `progress`, once SetDrainPaused(false).
  absl::Status Drain(const std::function<bool(uint64_t)>& progress) override {
    while (true) {
      const uint64_t dirty_bytes = Metrics().dirty_bytes;
      if (!progress(dirty_bytes)) return absl::CancelledError("cancelled");
      if (dirty_bytes == 0) return absl::OkStatus();
      if (drain_paused_) continue;
      ChangeMetrics([](VolumeMetrics& metrics) { metrics.dirty_bytes -= kBlockBytes; });
    }
  }
  absl::StatusOr<bool> RunBackgroundStep() override { return false; }
  absl::Status Close() override {
    closed_ = true;
    return absl::OkStatus();
  }
  uint64_t volume_bytes() const override { return data_.size(); }
  std::string Describe() const override { return "a volume in memory"; }
  std::string uuid() const override { return "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"; }

  template <typename Change>
  void ChangeMetrics(Change change) {
    const std::lock_guard lock(mutex_);
    change(metrics_);
  }
  void SetDrainPaused(bool paused) { drain_paused_ = paused; }
  void SetFail(bool fail) { fail_ = fail; }
  bool closed() const { return closed_; }

 private:
  mutable std::mutex mutex_;
  std::vector<std::byte> data_;
  Setting setting_;
  VolumeMetrics metrics_;
  std::vector<VolumeNotice> notices_;
  std::atomic<bool> drain_paused_{true};
  std::atomic<bool> fail_{false};
  std::atomic<bool> closed_{false};
};

}  // namespace ebb::storage
