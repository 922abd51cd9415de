#include "storage-backend/volume/scrubber.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/units.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

// A piece that holds nothing is charged so many bytes for its look-ups.
constexpr uint64_t kEmptyPieceBytes = 64 * kKiB;

}  // namespace

Scrubber::Scrubber(BlockVerifier verifier, uint64_t volume_blocks, Clock& clock,
                   std::function<void(std::string)> report)
    : verifier_(std::move(verifier)),
      volume_blocks_(volume_blocks),
      clock_(clock),
      report_(std::move(report)) {}

void Scrubber::SetRateMibps(uint64_t rate) {
  {
    const std::lock_guard lock(mutex_);
    if (rate_mibps_.exchange(rate) == rate) return;
    changed_ = true;
  }
  wake_.notify_all();
}

uint64_t Scrubber::DueNs(uint64_t rate) const {
  const double seconds =
      static_cast<double>(owed_bytes_) / (static_cast<double>(rate) * static_cast<double>(kMiB));
  return owed_since_ns_ + static_cast<uint64_t>(seconds * static_cast<double>(kNsPerS));
}

uint64_t Scrubber::Step(uint64_t now_ns) {
  const uint64_t rate = rate_mibps_;
  if (rate == 0 || volume_blocks_ == 0) return kNever;
  if (now_ns < DueNs(rate)) return DueNs(rate);
  // Time that nobody used is not saved up.
  owed_since_ns_ = now_ns;
  owed_bytes_ = 0;
  VerifyPiece();
  return DueNs(rate);
}

void Scrubber::VerifyPiece() {
  const auto count = static_cast<uint32_t>(
      std::min<uint64_t>(BlockVerifier::kBlocksMax, volume_blocks_ - next_block_));
  BlockVerifier::Result result;
  verifier_.Verify(next_block_, count, result);
  next_block_ += count;
  const uint64_t bytes = (result.cache_blocks + result.capacity_blocks) * kCacheBlockBytes;
  owed_bytes_ = std::max(bytes, kEmptyPieceBytes);
  for (const std::string& damage : result.damages) {
    if (damaged_in_pass_++ < kToldMax) report_("scrub: " + damage);
  }
  const bool done = next_block_ == volume_blocks_;
  {
    const std::lock_guard lock(mutex_);
    progress_.scanned_bytes += bytes;
    progress_.damaged_blocks += result.damaged_blocks;
    progress_.passes += done ? 1 : 0;
    progress_.share =
        done ? 0 : static_cast<double>(next_block_) / static_cast<double>(volume_blocks_);
  }
  if (done) EndPass();
}

void Scrubber::EndPass() {
  if (damaged_in_pass_ > kToldMax) {
    report_(fmt::format("scrub: {} damaged blocks in this pass", damaged_in_pass_));
  }
  damaged_in_pass_ = 0;
  next_block_ = 0;
}

void Scrubber::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Scrubber::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Scrubber::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_ = false;
    lock.unlock();
    const uint64_t due_ns = Step(clock_.MonotonicNs());
    const uint64_t now_ns = clock_.MonotonicNs();
    lock.lock();
    const auto awake = [this] { return stopping_ || changed_; };
    if (due_ns == kNever) {
      wake_.wait(lock, awake);
    } else if (due_ns > now_ns) {
      wake_.wait_for(lock, std::chrono::nanoseconds(due_ns - now_ns), awake);
    }
  }
}

Scrubber::Progress Scrubber::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

}  // namespace ebb::storage
