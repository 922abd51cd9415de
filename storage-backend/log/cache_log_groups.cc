// The life of group buffers and flushes of CacheLog.
#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/check.h"
#include "base/may_block.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/log/cache_log.h"

namespace ebb::storage {
namespace {

// The leader of a flush looks this often whether its company is complete.
constexpr uint64_t kCompanyLookNs = 50 * kNsPerUs;

}  // namespace

uint32_t CacheLog::IdleGroupLocked() const {
  uint32_t oldest = kNoGroup;
  for (uint32_t i = 0; i < groups_in_turn_; ++i) {
    const Group& group = *groups_[i];
    if (group.state != GroupState::kIdle || group.pins.load(std::memory_order_acquire) != 0) {
      continue;
    }
    // The one written longest ago: the others still serve reads.
    if (oldest == kNoGroup || group.sequence < groups_[oldest]->sequence) oldest = i;
  }
  return oldest;
}

bool CacheLog::ReapDone(Lock& lock) {
  bool any = false;
  for (uint32_t i = 0; i < groups_in_turn_; ++i) any = ReapGroup(lock, i, /*wait=*/false) || any;
  return any;
}

void CacheLog::FreeAGroup(Lock& lock) {
  // What the device has finished is nobody's until it is asked for.
  if (ReapDone(lock)) return;
  if (groups_in_turn_ < groups_.size()) {
    ++groups_in_turn_;
  } else {
    WaitForGroup(lock);
  }
}

// Makes sure that a group with room for `slots_min` data blocks is open; false when fenced or when
// no segment can be opened.
bool CacheLog::OpenGroup(Lock& lock, uint32_t slots_min, uint64_t now_ns) {
  const uint32_t segment_blocks = map_.geometry().segment_blocks;
  for (;;) {
    if (!fence_.ok()) return false;
    if (open_ != kNoGroup) {
      if (mirrors_[open_].used + slots_min <= groups_[open_]->capacity) return true;
      CloseOpenLocked();  // it has room for ranges only
    }
    const bool new_segment = !active_ || active_used_blocks_ + 1 + slots_min > segment_blocks;
    if (new_segment) {
      map_.CollectUnpinned();
      if (!map_.CanOpenSegment()) return false;
    }
    const uint32_t idle = IdleGroupLocked();
    if (idle == kNoGroup) {
      FreeAGroup(lock);  // gives the lock up: look at everything again
      continue;
    }
    if (new_segment) {
      const uint32_t segment = map_.OpenSegment(next_sequence_);
      active_ = true;
      active_used_blocks_ = 0;
      // What buffers remember of the segment's former content is no longer what is there.
      for (size_t i = 0; i < groups_.size(); ++i) {
        if (mirrors_[i].header_block != 0 && groups_[i]->state == GroupState::kIdle &&
            map_.geometry().SegmentOf(mirrors_[i].header_block) == segment) {
          mirrors_[i] = {};
        }
      }
    }
    Group& group = *groups_[idle];
    group.state = GroupState::kOpen;
    group.sequence = next_sequence_++;
    mirrors_[idle] = {
        .header_block = map_.geometry().FirstBlock(map_.active_segment()) + active_used_blocks_,
        .used = 0};
    group.capacity = std::min(kGroupBlocksMax, segment_blocks - active_used_blocks_ - 1);
    group.entry_count = 0;
    group.pending = 0;
    group.opened_ns = now_ns;
    open_ = idle;
    map_.SetLastSequence(group.sequence);
    UpdateFillLocked();
    return true;
  }
}

void CacheLog::CloseOpenLocked() {
  Group& group = *groups_[open_];
  EBB_CHECK(group.state == GroupState::kOpen && group.entry_count > 0);
  group.state = GroupState::kClosed;
  closed_sequence_ = group.sequence;
  const Mirror mirror = mirrors_[open_];
  closed_end_block_ = mirror.header_block + 1 + mirror.used;
  active_used_blocks_ += 1 + mirror.used;
  const uint32_t closed = open_;
  open_ = kNoGroup;
  if (group.pending == 0) MarkReadyLocked(closed);
}

void CacheLog::MarkReadyLocked(uint32_t group) { ready_.push_back(group); }

void CacheLog::SubmitReady(Lock& lock) {
  while (!ready_.empty()) {
    const uint32_t index = ready_.front();
    ready_.erase(ready_.begin());
    Group& group = *groups_[index];
    if (!fence_.ok()) {
      group.state = GroupState::kFailed;
      changed_.notify_all();
      continue;
    }
    const Mirror mirror = mirrors_[index];
    const GroupHeader header = {.node_uuid = options_.node_uuid,
                                .epoch = options_.epoch,
                                .sequence = group.sequence,
                                .durable_sequence = durable_sequence_,
                                .header_block = mirror.header_block,
                                .payload_blocks = mirror.used,
                                .entry_count = group.entry_count};
    group.io = {.kind = Io::Kind::kWrite,
                .offset = uint64_t{mirror.header_block} * kCacheBlockBytes,
                .data = group.buffer.data(),
                .bytes = size_t{1 + mirror.used} * kCacheBlockBytes};
    written_bytes_ += group.io.bytes;
    // The group is closed and not in flight, so nobody else touches it or its queue.
    lock.unlock();
    EncodeHeader(group.buffer.first(kCacheBlockBytes), header);
    group.queue->Submit(&group.io);
    lock.lock();
    group.state = GroupState::kInFlight;
    changed_.notify_all();
  }
}

void CacheLog::CompleteLocked(uint32_t index) {
  Group& group = *groups_[index];
  if (group.io.status.ok()) {
    group.state = GroupState::kIdle;
    return;
  }
  // The blocks were acknowledged; only this buffer has them now, so it serves reads for good.
  group.state = GroupState::kFailed;
  device_errors_.fetch_add(1, std::memory_order_relaxed);
  FenceLocked(group.io.status, fmt::format("group {} was not written", group.sequence));
}

// Whoever runs the node must learn of it once, in words; clients get the status with each request.
void CacheLog::FenceLocked(const absl::Status& cause, const std::string& what) {
  if (!fence_.ok()) return;
  fence_ = Annotate(cause, "cache log is fenced: " + what);
  fmt::print(stderr, "ebb: {}; no write is accepted until the node is started again\n",
             std::string(fence_.message()));
}

bool CacheLog::ReapGroup(Lock& lock, uint32_t index, bool wait) {
  Group& group = *groups_[index];
  if (group.state != GroupState::kInFlight || group.reaping) return false;
  group.reaping = true;
  lock.unlock();
  const std::vector<Io*> done = group.queue->Reap(wait ? 1 : 0);
  lock.lock();
  group.reaping = false;
  if (!done.empty()) CompleteLocked(index);
  changed_.notify_all();
  return !done.empty();
}

// Returns when the state of some group may have changed; all buffers were busy.
void CacheLog::WaitForGroup(Lock& lock) {
  MayBlock();
  if (!ready_.empty()) {
    SubmitReady(lock);
    return;
  }
  uint32_t oldest = kNoGroup;
  bool idle_but_pinned = false;
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    Group& group = *groups_[i];
    if (group.state == GroupState::kIdle) idle_but_pinned = true;
    if (group.state != GroupState::kInFlight || group.reaping) continue;
    if (oldest == kNoGroup || group.sequence < groups_[oldest]->sequence) oldest = i;
  }
  if (oldest != kNoGroup) {
    ReapGroup(lock, oldest, /*wait=*/true);
  } else if (idle_but_pinned) {
    lock.unlock();
    std::this_thread::yield();  // a reader copies a block out of it
    lock.lock();
  } else {
    changed_.wait(lock);  // others are copying, submitting or waiting for the device
  }
}

// Returns when every group up to `sequence`, all closed, was written or the log is fenced.
void CacheLog::WaitWritten(Lock& lock, uint64_t sequence) {
  while (fence_.ok()) {
    if (!ready_.empty()) SubmitReady(lock);
    bool outstanding = false;
    uint32_t reapable = kNoGroup;
    for (uint32_t i = 0; i < groups_.size(); ++i) {
      const Group& group = *groups_[i];
      if (group.sequence > sequence) continue;
      if (group.state == GroupState::kClosed || group.state == GroupState::kInFlight) {
        outstanding = true;
        if (group.state == GroupState::kInFlight && !group.reaping) reapable = i;
      }
    }
    if (!outstanding) return;
    if (reapable != kNoGroup) {
      ReapGroup(lock, reapable, /*wait=*/true);
    } else {
      changed_.wait(lock);
    }
  }
}

absl::Status CacheLog::LeadFlush(Lock& lock) {
  flushing_ = true;
  if (const uint64_t wait_us = flush_group_us_.load(std::memory_order_relaxed); wait_us > 0) {
    Clock& clock = *options_.clock;
    const uint64_t began_ns = clock.MonotonicNs();
    for (uint64_t now_ns = began_ns;; now_ns = clock.MonotonicNs()) {
      const uint64_t until_ns = grouping_.WaitUntilNs(began_ns, flush_members_, wait_us);
      if (now_ns >= until_ns) break;
      lock.unlock();
      clock.SleepUntilNs(std::min(until_ns, now_ns + kCompanyLookNs));
      lock.lock();
    }
  }
  if (open_ != kNoGroup) CloseOpenLocked();
  const uint64_t target = closed_sequence_;
  const uint32_t target_end_block = closed_end_block_;
  const size_t members = flush_members_;
  flush_members_ = 0;
  WaitWritten(lock, target);
  if (fence_.ok()) {
    lock.unlock();
    const absl::Status flushed = options_.device->Flush();
    lock.lock();
    if (flushed.ok()) {
      durable_sequence_ = target;
      durable_end_block_ = target_end_block;
    } else {
      device_errors_.fetch_add(1, std::memory_order_relaxed);
      FenceLocked(flushed, "its device's flush failed");
    }
    grouping_.OnGroupDone(members, flush_members_);
  }
  flushing_ = false;
  changed_.notify_all();
  return fence_;
}

absl::Status CacheLog::Flush() {
  uint64_t sequence = 0;
  {
    const std::lock_guard lock(mutex_);
    sequence = open_ != kNoGroup ? groups_[open_]->sequence : closed_sequence_;
  }
  return FlushTo(sequence);
}

absl::Status CacheLog::FlushTo(uint64_t sequence) {
  Lock lock(mutex_);
  if (!fence_.ok()) return fence_;
  if (durable_sequence_ >= sequence) return absl::OkStatus();
  MayBlock();
  ++flush_members_;
  while (durable_sequence_ < sequence) {
    if (!fence_.ok()) return fence_;
    if (flushing_) {
      changed_.wait(lock);
    } else {
      EBB_RETURN_IF_ERROR(LeadFlush(lock));
    }
  }
  return absl::OkStatus();
}

uint64_t CacheLog::Tick(uint64_t now_ns, uint64_t group_age_ns) {
  Lock lock(mutex_);
  if (open_ != kNoGroup && now_ns >= groups_[open_]->opened_ns + group_age_ns) CloseOpenLocked();
  SubmitReady(lock);
  for (uint32_t i = 0; i < groups_.size(); ++i) ReapGroup(lock, i, /*wait=*/false);
  return open_ == kNoGroup ? 0 : groups_[open_]->opened_ns + group_age_ns;
}

void CacheLog::UpdateFillLocked() {
  double segments = static_cast<double>(map_.unclean_count());
  if (active_ && map_.unclean_count() > 0) {
    segments += static_cast<double>(active_used_blocks_) / map_.geometry().segment_blocks - 1;
  }
  fill_.store(segments / map_.write_segment_limit(), std::memory_order_relaxed);
}

}  // namespace ebb::storage
