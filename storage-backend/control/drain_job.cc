#include "storage-backend/control/drain_job.h"

#include "base/units.h"
#include "fmt/format.h"

namespace ebb::storage {

void DrainJob::Start() {
  const std::lock_guard lock(mutex_);
  if (running_) return;
  if (thread_.joinable()) thread_.join();
  cancelled_ = false;
  dirty_bytes_at_start_ = volume_.Metrics().dirty_bytes;
  started_ns_ = clock_.MonotonicNs();
  running_ = true;
  thread_ = std::thread([this] { Run(); });
}

void DrainJob::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (thread_.joinable()) thread_.join();
}

void DrainJob::Run() {
  const absl::Status status = volume_.Drain([this](uint64_t) { return !cancelled_; });
  const std::string took = FormatDurationNs(clock_.MonotonicNs() - started_ns_);
  if (status.ok()) {
    report_(true, fmt::format("drained {} in {}", FormatBytes(dirty_bytes_at_start_), took));
  } else if (cancelled_) {
    report_(true, fmt::format("the drain was ended after {}", took));
  } else {
    report_(false,
            fmt::format("the drain failed after {}: {}", took, std::string(status.message())));
  }
  running_ = false;
}

std::optional<double> DrainJob::EtaSeconds(uint64_t dirty_bytes) const {
  if (!running_ || dirty_bytes >= dirty_bytes_at_start_) return std::nullopt;
  const double elapsed_s =
      static_cast<double>(clock_.MonotonicNs() - started_ns_) / static_cast<double>(kNsPerS);
  const auto done_bytes = static_cast<double>(dirty_bytes_at_start_ - dirty_bytes);
  return elapsed_s * static_cast<double>(dirty_bytes) / done_bytes;
}

}  // namespace ebb::storage
