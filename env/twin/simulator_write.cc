// The life of a write, a trim and a flush.
#include <algorithm>
#include <utility>

#include "base/units.h"
#include "env/twin/simulator.h"
#include "storage-backend/policy/background_pace.h"

namespace ebb::twin {
namespace {

// The leader of a flush looks this often whether its company is complete.
constexpr uint64_t kCompanyLookNs = 50 * kNsPerUs;

}  // namespace

bool Simulator::PlanMerge(uint32_t record, uint32_t end_record) {
  const std::span<const Request> requests = load_.requests();
  const Request& head = requests[record];
  const Request& tail = requests[end_record - 1];
  if (((head.flags | tail.flags) & (Request::kPartialFirst | Request::kPartialLast)) == 0) {
    return false;
  }
  ClearPlan();
  const uint32_t last = tail.first_block + tail.blocks - 1;
  if ((head.flags & Request::kPartialFirst) != 0) PlanBlock(head.first_block, /*count=*/false);
  if ((tail.flags & Request::kPartialLast) != 0 &&
      ((head.flags & Request::kPartialFirst) == 0 || last != head.first_block)) {
    PlanBlock(last, /*count=*/false);
  }
  plan_.fills.clear();  // not a client's read: nothing is kept
  if (!plan_.from_capacity.empty()) PlanCapacity();
  return !plan_.runs.empty() || !plan_.transfers.empty();
}

void Simulator::ServeWrite(Served served, uint32_t end_record, uint64_t now_ns) {
  ++writes_;
  const std::span<const Request> requests = load_.requests();
  const Request& head = requests[served.record];
  uint64_t blocks = 0;
  for (uint32_t i = served.record; i < end_record; ++i) blocks += requests[i].blocks;
  block_operations_ += blocks;
  const bool write = head.kind == RequestKind::kWrite;
  double own_ns = node_.cpu.write_request;
  if (write) own_ns += node_.cpu.write_block * static_cast<double>(blocks);
  const uint64_t planned_ns = cpu_.Book(now_ns, node_.cpu.nbd_request + own_ns);
  served.entry_ns = planned_ns - static_cast<uint64_t>(own_ns);
  if (write && PlanMerge(served.record, end_record)) {
    const uint32_t number = TakePending(served);
    pending_[number].transfers.swap(plan_.transfers);
    events_.Add(plan_.runs.empty() ? planned_ns : ReadRuns(planned_ns), kReadStage, number);
    return;
  }
  const uint64_t held_ns = write ? HoldUntilNs(planned_ns, blocks * kBlockBytes) : 0;
  if (held_ns == 0 && first_waiting_ == waiting_for_room_.size() &&
      (head.flags & Request::kFua) == 0 && HasSpaceFor(blocks)) {
    // The usual case needs no record of itself.
    uint64_t done_ns = planned_ns;
    uint32_t record = served.record;
    uint32_t block = 0;
    for (; record < end_record; ++record, block = 0) {
      if (!AppendRecord(requests[record], block, done_ns)) break;
    }
    if (record == end_record) return Complete(served, done_ns);
    const uint32_t number = TakePending(served);
    pending_[number].record = record;
    pending_[number].record_block = block;
    waiting_for_room_.push_back(number);
    return Kick(now_ns);
  }
  events_.Add(std::max(held_ns, planned_ns), kHeldWrite, TakePending(served));
}

bool Simulator::HasSpaceFor(uint64_t blocks) const {
  return (log_.dirty_blocks() + blocks) * kBlockBytes <= capacity_.FreeBytes();
}

uint64_t Simulator::HoldUntilNs(uint64_t now_ns, uint64_t bytes) {
  const double fill = log_.fill();
  if (fill <= throttle_start_) return 0;
  const uint64_t until_ns = throttle_.Admit({.now_ns = now_ns,
                                             .bytes = bytes,
                                             .fill = fill,
                                             .drain_bytes_per_s = drain_bytes_per_s_,
                                             .softness = softness_,
                                             .watermark_percent = watermark_});
  if (until_ns <= now_ns + storage::kHoldWorthNs) return 0;
  window_.metrics.throttle_seconds += static_cast<double>(until_ns - now_ns) / 1e9;
  return until_ns;
}

// Appends from block number `block` of the record on; false when there is no room for the rest.
bool Simulator::AppendRecord(const Request& request, uint32_t& block, uint64_t& now_ns) {
  if (request.kind == RequestKind::kTrim) {
    if (!log_.Trim(request.first_block, request.blocks, now_ns)) return false;
    for (uint32_t i = 0; i < request.blocks; ++i)
      read_cache_.Erase(table_[request.first_block + i]);
    return true;
  }
  const std::span<const uint32_t> contents = load_.contents();
  const uint64_t full_groups = log_.full_groups();
  for (; block < request.blocks; ++block) {
    const uint32_t number = request.first_block + block;
    const LogModel::Content content{
        .block = number,
        .content = request.content == Request::kUnique ? 0 : contents[request.content + block],
        .compressed_per_mille = request.compressed_per_mille};
    if (!log_.Append(content, /*dirty=*/true, now_ns)) return false;
    read_cache_.Erase(table_[number]);
  }
  if (log_.full_groups() > full_groups) {
    now_ns = cpu_.Book(
        now_ns, node_.cpu.group_close * static_cast<double>(log_.full_groups() - full_groups));
  }
  return true;
}

void Simulator::TryAppend(uint32_t number, uint64_t now_ns) {
  Pending& pending = pending_[number];
  const std::span<const Request> requests = load_.requests();
  if (!HasSpaceFor(1) && requests[pending.record].kind == RequestKind::kWrite) {
    ++window_.metrics.write.errors;  // refused before it is acknowledged: ENOSPC
    return CompletePending(number, now_ns);
  }
  uint64_t done_ns = now_ns;
  for (bool more = true; more;) {
    if (!AppendRecord(requests[pending.record], pending.record_block, done_ns)) {
      waiting_for_room_.push_back(number);
      return Kick(now_ns);
    }
    more = (requests[pending.record].flags & Request::kContinues) != 0;
    ++pending.record;
    pending.record_block = 0;
  }
  if ((requests[pending.served.record].flags & Request::kFua) != 0) {
    return RequestFlush(number, done_ns);
  }
  CompletePending(number, done_ns);
}

// Some room came back: those who wait for it go on in their order, until there is none again.
void Simulator::RetryWaiting(uint64_t now_ns) {
  const size_t end = waiting_for_room_.size();
  while (first_waiting_ < end && log_.CanAppend()) {
    TryAppend(waiting_for_room_[first_waiting_++], now_ns);
  }
  if (first_waiting_ == waiting_for_room_.size()) {
    waiting_for_room_.clear();
    first_waiting_ = 0;
  } else if (first_waiting_ > 1024) {
    waiting_for_room_.erase(waiting_for_room_.begin(),
                            waiting_for_room_.begin() + static_cast<ptrdiff_t>(first_waiting_));
    first_waiting_ = 0;
  }
}

void Simulator::ServeFlush(Served served, uint64_t now_ns) {
  const uint64_t planned_ns = cpu_.Book(now_ns, node_.cpu.nbd_request + node_.cpu.flush_request);
  served.entry_ns = planned_ns - static_cast<uint64_t>(node_.cpu.flush_request);
  if (log_.newest_sequence() <= log_.durable_sequence()) return Complete(served, planned_ns);
  RequestFlush(TakePending(served), planned_ns);
}

void Simulator::RequestFlush(uint32_t who, uint64_t now_ns) {
  const uint64_t sequence = log_.newest_sequence();
  if (log_.durable_sequence() >= sequence) return AnswerFlush(who, now_ns);
  flush_joined_.push_back({who, sequence});
  ++flush_members_;
  if (flush_state_ == FlushState::kIdle) {
    flush_began_ns_ = now_ns;
    GatherFlush(now_ns);
  } else if (flush_state_ == FlushState::kGathering) {
    GatherFlush(now_ns + kCompanyLookNs / 2);
  }
}

// The leader waits for company, or begins at `now_ns`.
void Simulator::GatherFlush(uint64_t now_ns) {
  const uint64_t until_ns = grouping_.WaitUntilNs(flush_began_ns_, flush_members_, flush_group_us_);
  flush_state_ = FlushState::kGathering;
  events_.Add(std::max(until_ns, now_ns), kFlushBegin, ++flush_generation_);
}

void Simulator::BeginFlush(uint64_t now_ns) {
  flush_state_ = FlushState::kRunning;
  flush_group_ = std::exchange(flush_members_, 0);
  flush_target_ = log_.BeginFlush(now_ns);
  events_.Add(flush_target_.written_ns, kFlushDevice, 0);
}

void Simulator::EndFlush(uint64_t now_ns) {
  log_.EndFlush(flush_target_);
  grouping_.OnGroupDone(flush_group_, flush_members_);
  flush_state_ = FlushState::kIdle;
  // Those who came while it ran and wanted no more than it covers are answered as well, though the
  // next group still counts them.
  std::vector<FlushMember> joined = std::move(flush_joined_);
  flush_joined_.clear();
  for (const FlushMember& member : joined) {
    if (member.sequence > log_.durable_sequence()) flush_joined_.push_back(member);
  }
  const bool more = !flush_joined_.empty();
  if (more) {
    flush_began_ns_ = now_ns;
    GatherFlush(now_ns);
  }
  for (const FlushMember& member : joined) {
    if (member.sequence <= log_.durable_sequence()) AnswerFlush(member.who, now_ns);
  }
}

void Simulator::AnswerFlush(uint32_t who, uint64_t now_ns) {
  if (who == kBackgroundFlush) {
    Background(now_ns);
  } else {
    CompletePending(who, now_ns + DeviceWaitNs());
  }
}

}  // namespace ebb::twin
