#include "storage-backend/policy/destage_pacing.h"

#include <algorithm>

#include "base/units.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kLookAgainNs = 50 * kNsPerMs;
// Reads noticed within this time count as "clients read".
constexpr uint64_t kReadMemoryNs = 200 * kNsPerMs;
// Politeness fades out when the log would be full within this time.
constexpr double kTimeToFullS = 4;
constexpr uint64_t kPauseMaxNs = 2 * kNsPerS;
// A batch is at most this part of the write space: the throttle's usual range is a quarter of it,
// so one batch moves the writers along a sixteenth of their curve.
constexpr uint64_t kBatchShare = 64;
constexpr uint64_t kBatchBytesMin = 256 * kKiB;

}  // namespace

double DestagePacing::LowerMark(int watermark_percent) { return 0.9 * watermark_percent / 100; }

uint64_t DestagePacing::IdleWaitNs(int politeness) {
  return 100 * kNsPerMs + static_cast<uint64_t>(politeness) * 50 * kNsPerMs;
}

uint64_t DestagePacing::BatchBytes(uint64_t knob_bytes, uint64_t write_space_bytes) {
  return std::min(knob_bytes, std::max(write_space_bytes / kBatchShare, kBatchBytesMin));
}

uint64_t DestagePacing::PauseNs(const Input& input) const {
  if (input.now_ns - last_read_ns_ > kReadMemoryNs || reads_seen_ == 0) return 0;
  const double watermark = input.watermark_percent / 100.0;
  double calm = std::clamp((1 - input.fill) / (1 - watermark), 0.0, 1.0);
  if (input.fill_per_s > 0) {
    const double time_to_full_s = std::max(0.0, 1 - input.fill) / input.fill_per_s;
    calm = std::min(calm, time_to_full_s / kTimeToFullS);
  }
  const double factor = 4.0 * input.politeness / 100 * calm * calm;
  const double pause_ns = static_cast<double>(batch_duration_ns_) * factor;
  return std::min(static_cast<uint64_t>(pause_ns), kPauseMaxNs);
}

DestagePacing::Decision DestagePacing::Decide(const Input& input) {
  if (input.reads != reads_seen_) last_read_ns_ = input.now_ns;
  if (input.reads != reads_seen_ || input.writes != writes_seen_ || last_request_ns_ == 0) {
    last_request_ns_ = input.now_ns;
  }
  reads_seen_ = input.reads;
  writes_seen_ = input.writes;

  if (input.fill > input.watermark_percent / 100.0) active_ = true;
  if (input.fill < LowerMark(input.watermark_percent)) active_ = false;
  if (!input.has_work) return {.wait_ns = kLookAgainNs};
  if (input.drain) return {.run = true};

  if (!active_) {
    const uint64_t idle_at_ns = last_request_ns_ + IdleWaitNs(input.politeness);
    if (input.now_ns >= idle_at_ns) return {.run = true};
    return {.wait_ns = std::min(idle_at_ns - input.now_ns, kLookAgainNs)};
  }
  const uint64_t resume_ns = batch_end_ns_ + PauseNs(input);
  if (input.now_ns >= resume_ns) {
    return {.run = true, .keep_fill = LowerMark(input.watermark_percent)};
  }
  return {.wait_ns = std::min(resume_ns - input.now_ns, kLookAgainNs)};
}

void DestagePacing::OnBatchDone(uint64_t begin_ns, uint64_t end_ns) {
  batch_duration_ns_ = end_ns - begin_ns;
  batch_end_ns_ = end_ns;
}

}  // namespace ebb::storage
