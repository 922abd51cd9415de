#include "storage-backend/device/disk_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/check.h"
#include "base/units.h"

namespace ebb::storage {
namespace {

constexpr double kSeekJitter = 0.05;
// With q requests to choose from the drive shortens positioning to q^-0.25, at best to this.
constexpr double kQueueGainFloor = 0.45;
constexpr size_t kCacheStretches = 512;
constexpr uint64_t kReadAheadBytes = 2 * kMiB;
constexpr uint64_t kDestageBytes = kMiB;

}  // namespace

DiskModel::DiskModel(const DiskParameters& parameters, const ServiceModelOptions& options)
    : device_bytes_(options.device_bytes),
      seek_min_ns_(parameters.seek_min_ns / options.scale),
      seek_slope_ns_(parameters.seek_slope_ns / options.scale),
      cache_bytes_(parameters.cache_bytes),
      bytes_per_ns_(parameters.bytes_per_ns * options.scale),
      link_bytes_per_ns_(parameters.link_bytes_per_ns * options.scale),
      revolution_ns_(
          std::max<uint64_t>(1, static_cast<uint64_t>(parameters.revolution_ns / options.scale))),
      track_bytes_(std::max<uint64_t>(
          1, static_cast<uint64_t>(parameters.revolution_ns * parameters.bytes_per_ns))),
      overhead_ns_(static_cast<uint64_t>(parameters.overhead_ns / options.scale)),
      rng_(options.seed) {}

uint64_t DiskModel::CompletionNs(uint64_t now_ns, const ServiceRequest& request) {
  now_ns = std::max(now_ns, latest_ns_);
  latest_ns_ = now_ns;
  while (DestageOne(now_ns)) {
  }
  switch (request.kind) {
    case Io::Kind::kRead:
      return Read(now_ns, request.offset, request.bytes);
    case Io::Kind::kWrite:
      return Write(now_ns, request.offset, request.bytes);
    case Io::Kind::kFlush:
      return Flush(now_ns);
  }
  EBB_CHECK(false);
  return now_ns;
}

uint64_t DiskModel::TransferNs(uint64_t bytes) const {
  return static_cast<uint64_t>(static_cast<double>(bytes) / bytes_per_ns_);
}

uint64_t DiskModel::LinkNs(uint64_t now_ns, uint64_t bytes) {
  link_free_ns_ = std::max(now_ns, link_free_ns_) +
                  static_cast<uint64_t>(static_cast<double>(bytes) / link_bytes_per_ns_);
  return link_free_ns_;
}

uint64_t DiskModel::PositionNs(uint64_t start_ns, uint64_t offset, size_t queue) {
  // A stream goes on: the drive had buffered enough not to lose the revolution.
  if (offset == head_byte_) return 0;
  double seek_ns = 0;
  if (offset / track_bytes_ != head_byte_ / track_bytes_) {
    const uint64_t distance = offset > head_byte_ ? offset - head_byte_ : head_byte_ - offset;
    const double share = static_cast<double>(distance) / static_cast<double>(device_bytes_);
    seek_ns = seek_min_ns_ + seek_slope_ns_ * std::sqrt(share);
    seek_ns *= std::max(0.5, 1 + kSeekJitter * rng_.Normal());
  }
  const uint64_t arrival_ns = start_ns + static_cast<uint64_t>(seek_ns);
  const double revolution = static_cast<double>(revolution_ns_);
  const double target =
      static_cast<double>(offset % track_bytes_) / static_cast<double>(track_bytes_);
  const double angle = static_cast<double>(arrival_ns % revolution_ns_) / revolution;
  const double wait_ns = (target >= angle ? target - angle : 1 + target - angle) * revolution;
  const double gain =
      std::max(kQueueGainFloor, std::pow(static_cast<double>(std::max<size_t>(queue, 1)), -0.25));
  return static_cast<uint64_t>((seek_ns + wait_ns) * gain);
}

void DiskModel::Serve(uint64_t start_ns, uint64_t offset, uint64_t bytes, size_t queue) {
  head_free_ns_ = start_ns + PositionNs(start_ns, offset, queue) + TransferNs(bytes);
  head_byte_ = offset + bytes;
  ahead_valid_ = false;
}

bool DiskModel::DestageOne(uint64_t until_ns) {
  if (dirty_.empty()) return false;
  auto next = dirty_.lower_bound(head_byte_);
  if (next == dirty_.end()) next = dirty_.begin();
  const uint64_t start_ns = std::max(head_free_ns_, next->second.since_ns);
  if (start_ns >= until_ns) return false;
  const uint64_t begin = next->first;
  const Dirty stretch = next->second;
  const uint64_t bytes = std::min(stretch.end - begin, kDestageBytes);
  Serve(start_ns, begin, bytes, dirty_.size());
  dirty_.erase(next);
  if (begin + bytes < stretch.end) dirty_.emplace(begin + bytes, stretch);
  dirty_bytes_ -= bytes;
  return true;
}

void DiskModel::AddDirty(uint64_t now_ns, uint64_t offset, uint64_t bytes) {
  uint64_t begin = offset;
  Dirty merged{.end = offset + bytes, .since_ns = now_ns};
  auto it = dirty_.upper_bound(offset);
  if (it != dirty_.begin() && std::prev(it)->second.end >= offset) --it;
  while (it != dirty_.end() && it->first <= merged.end) {
    begin = std::min(begin, it->first);
    merged.end = std::max(merged.end, it->second.end);
    merged.since_ns = std::min(merged.since_ns, it->second.since_ns);
    dirty_bytes_ -= it->second.end - it->first;
    it = dirty_.erase(it);
  }
  dirty_.emplace(begin, merged);
  dirty_bytes_ += merged.end - begin;
}

bool DiskModel::InCache(uint64_t offset, uint64_t bytes) const {
  auto it = dirty_.upper_bound(offset);
  if (it == dirty_.begin()) return false;
  return std::prev(it)->second.end >= offset + bytes;
}

uint64_t DiskModel::Read(uint64_t now_ns, uint64_t offset, uint64_t bytes) {
  const uint64_t end = offset + bytes;
  if (InCache(offset, bytes)) return LinkNs(now_ns, bytes) + overhead_ns_;
  if (ahead_valid_ && offset >= ahead_begin_ && end <= ahead_end_ + kReadAheadBytes) {
    if (end > ahead_end_) {
      // The head stopped when the buffer was full, so it may not be further than that.
      const uint64_t buffer_ns = TransferNs(kReadAheadBytes);
      const uint64_t stalled_ns = now_ns > buffer_ns ? now_ns - buffer_ns : 0;
      ahead_ns_ = std::max(ahead_ns_ + TransferNs(end - ahead_end_), stalled_ns);
      ahead_end_ = end;
      head_byte_ = end;
      head_free_ns_ = std::max(head_free_ns_, ahead_ns_);
    }
    return std::max(LinkNs(now_ns, bytes) + overhead_ns_, ahead_ns_);
  }
  while (!reads_.empty() && reads_.top() <= now_ns) reads_.pop();
  Serve(std::max(now_ns, head_free_ns_), offset, bytes, reads_.size() + 1);
  ahead_valid_ = true;
  ahead_begin_ = offset;
  ahead_end_ = end;
  ahead_ns_ = head_free_ns_;
  reads_.push(head_free_ns_ + overhead_ns_);
  return head_free_ns_ + overhead_ns_;
}

uint64_t DiskModel::Write(uint64_t now_ns, uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return now_ns + overhead_ns_;
  if (ahead_valid_ && offset < ahead_end_ + kReadAheadBytes && offset + bytes > ahead_begin_) {
    ahead_valid_ = false;  // what is buffered may be stale now
  }
  AddDirty(now_ns, offset, bytes);
  uint64_t room_ns = now_ns;
  while (dirty_bytes_ > cache_bytes_ || dirty_.size() > kCacheStretches) {
    DestageOne(std::numeric_limits<uint64_t>::max());
    room_ns = std::max(room_ns, head_free_ns_);
  }
  return std::max(LinkNs(now_ns, bytes), room_ns) + overhead_ns_;
}

uint64_t DiskModel::Flush(uint64_t now_ns) {
  while (DestageOne(std::numeric_limits<uint64_t>::max())) {
  }
  return std::max(now_ns, head_free_ns_) + overhead_ns_;
}

}  // namespace ebb::storage
