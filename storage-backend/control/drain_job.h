// DrainJob empties the cache log in the background and tells how far it is.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "storage-backend/volume/volume.h"

namespace ebb::storage {

class DrainJob {
 public:
  // `report` is told how a drain ended, from the job's thread. All outlive the job.
  DrainJob(Volume& volume, Clock& clock, std::function<void(bool ok, std::string text)> report)
      : volume_(volume), clock_(clock), report_(std::move(report)) {}
  ~DrainJob() { Cancel(); }

  // Starts a drain; nothing happens when one runs.
  void Start();
  // Lets a running drain end soon; does not wait.
  void RequestCancel() { cancelled_ = true; }
  // Ends a running drain and waits for it.
  void Cancel();

  bool running() const { return running_; }
  // Seconds to go at the mean rate since the start; nullopt when none runs or nothing is known yet.
  std::optional<double> EtaSeconds(uint64_t dirty_bytes) const;

 private:
  void Run();

  Volume& volume_;
  Clock& clock_;
  const std::function<void(bool ok, std::string text)> report_;
  std::mutex mutex_;  // one Start or Cancel at a time
  std::thread thread_;
  std::atomic<bool> running_{false};
  std::atomic<bool> cancelled_{false};
  std::atomic<uint64_t> dirty_bytes_at_start_{0};
  std::atomic<uint64_t> started_ns_{0};
};

}  // namespace ebb::storage
