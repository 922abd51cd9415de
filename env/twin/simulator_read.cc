// The life of a read: planned at once, executed in stages, kept afterwards.
#include <algorithm>

#include "env/twin/simulator.h"

namespace ebb::twin {

void Simulator::PlanBlock(uint32_t block, bool count) {
  BlockState& state = table_[block];
  if (SlotOf(state) != 0) {
    read_cache_.Touch(state, block);
    if (count) ++window_.read_blocks_dram;
    return;
  }
  if (IsZeroed(state)) {
    if (count) ++window_.read_blocks_unmapped;
    return;
  }
  if (state.log != 0) {
    if (count) ++window_.read_blocks_cache;
    if (log_.InBuffer(state.log)) return;
    plan_.misses = true;
    plan_.fills.push_back({.block = block, .log = state.log});
    ReadRun* last = plan_.runs.empty() ? nullptr : &plan_.runs.back();
    if (last != nullptr && last->cache_block + last->blocks == state.log) {
      ++last->blocks;
    } else {
      plan_.runs.push_back({.cache_block = state.log, .blocks = 1});
    }
    return;
  }
  plan_.misses = true;
  if (state.capacity == 0) {
    if (count) ++window_.read_blocks_unmapped;
    return;
  }
  if (count) ++window_.read_blocks_capacity;
  plan_.fills.push_back({.block = block, .log = 0});
  plan_.from_capacity.push_back(block);
}

void Simulator::PlanReadahead(uint32_t first_block, uint32_t last_block) {
  const auto verdict = streams_.Observe(load_.PlaceOf(first_block), plan_.wanted);
  const size_t wanted_missed = plan_.fills.size();
  if (bypass_bytes_ > 0 && verdict.run_blocks * kBlockBytes > bypass_bytes_) {
    plan_.fills.clear();
    plan_.copies = false;
    return;
  }
  plan_.copies = log_.wants_copies() && log_.fill() < lower_mark_;
  if (verdict.sequential && verdict.at_front && !read_cache_.off() &&
      plan_.wanted < readahead_blocks_) {
    uint32_t block = last_block;
    uint64_t fetched = 0;
    for (; fetched < readahead_blocks_; ++fetched) {
      if ((block + 1) % kPageBlocks != 0) {
        ++block;
      } else if (const uint32_t page = load_.NextPage(block >> kPageShift);
                 page != RequestStream::kNoPage) {
        block = page << kPageShift;
      } else {
        break;
      }
      const BlockState& state = table_[block];
      if (SlotOf(state) != 0 || IsZeroed(state)) break;
      if (state.log != 0 && log_.InBuffer(state.log)) break;
      PlanBlock(block, /*count=*/false);
    }
    window_.readahead_blocks += fetched * time_divisor_;
    plan_.cpu_ns += node_.cpu.read_block * static_cast<double>(fetched);
    streams_.Extend(verdict.stream, load_.PlaceOf(first_block) + plan_.wanted + fetched);
  }
  PlanKeeping(wanted_missed);
}

// Takes slots for what is to be kept; what was fetched ahead always is.
void Simulator::PlanKeeping(size_t wanted_missed) {
  if (read_cache_.off()) {
    plan_.fills.clear();
    return;
  }
  size_t kept = 0;
  for (size_t i = 0; i < plan_.fills.size(); ++i) {
    Fill fill = plan_.fills[i];
    using ReadFrom = storage::ReadAdmissionPolicy::ReadFrom;
    const ReadFrom from = fill.log == 0 ? ReadFrom::kCapacity : ReadFrom::kCacheDevice;
    if (i < wanted_missed && !read_cache_.Admits(fill.block, from)) continue;
    fill.slot = read_cache_.Allocate();
    if (fill.slot != ReadCacheModel::kNoSlot) plan_.fills[kept++] = fill;
  }
  plan_.fills.resize(kept);
}

// Blocks of the capacity tier that lie side by side in the volume are asked for together.
void Simulator::PlanCapacity() {
  for (size_t i = 0; i < plan_.from_capacity.size();) {
    const uint32_t first = plan_.from_capacity[i];
    uint32_t count = 1;
    for (++i; i < plan_.from_capacity.size() && plan_.from_capacity[i] == first + count; ++i) {
      ++count;
    }
    capacity_.PlanRead(first, count, plan_.transfers, plan_.cpu_ns);
  }
}

void Simulator::ClearPlan() {
  plan_.runs.clear();
  plan_.transfers.clear();
  plan_.fills.clear();
  plan_.from_capacity.clear();
  plan_.copies = plan_.misses = false;
  plan_.wanted = 0;
  plan_.cpu_ns = 0;
}

uint32_t Simulator::BlocksOf(uint32_t record, uint32_t end_record) const {
  uint32_t blocks = 0;
  for (uint32_t i = record; i < end_record; ++i) blocks += load_.requests()[i].blocks;
  return blocks;
}

uint32_t Simulator::PartEnd(uint32_t record, uint32_t end_record, uint32_t done,
                            uint32_t blocks) const {
  const std::span<const Request> requests = load_.requests();
  if (done == 0 && (requests[record].flags & Request::kPartialFirst) != 0) return 1;
  const bool partial_last = (requests[end_record - 1].flags & Request::kPartialLast) != 0;
  return partial_last && done + 1 < blocks ? blocks - 1 : blocks;
}

void Simulator::PlanRead(uint32_t record, uint32_t begin, uint32_t end) {
  ClearPlan();
  uint32_t first_block = 0;
  uint32_t last_block = 0;
  const std::span<const Request> requests = load_.requests();
  uint32_t at = 0;  // blocks of the request before this piece
  for (uint32_t i = record; at < end; at += requests[i++].blocks) {
    const Request& piece = requests[i];
    if (at + piece.blocks <= begin) continue;
    const uint32_t from = begin > at ? begin - at : 0;
    const uint32_t to = std::min<uint32_t>(piece.blocks, end - at);
    if (plan_.wanted == 0) first_block = piece.first_block + from;
    for (uint32_t n = from; n < to; ++n) PlanBlock(piece.first_block + n, true);
    plan_.wanted += to - from;
    last_block = piece.first_block + to - 1;
  }
  block_operations_ += plan_.wanted;
  plan_.cpu_ns = node_.cpu.read_block * static_cast<double>(plan_.wanted);
  if (begin == 0) plan_.cpu_ns += node_.cpu.nbd_request + node_.cpu.read_request;
  if (!plan_.misses) return;
  PlanReadahead(first_block, last_block);
  if (!plan_.from_capacity.empty()) PlanCapacity();
}

void Simulator::ServeRead(Served served, uint32_t end_record, uint64_t now_ns) {
  ++reads_;
  ReadParts(served, end_record, 0, kNoRequest, now_ns);
}

void Simulator::ReadParts(Served& served, uint32_t end_record, uint32_t done,
                          uint32_t pending_number, uint64_t now_ns) {
  const uint32_t record = served.record;
  const uint32_t blocks = BlocksOf(record, end_record);
  for (;;) {
    const uint32_t end = PartEnd(record, end_record, done, blocks);
    PlanRead(record, done, end);
    const uint64_t planned_ns = cpu_.Book(now_ns, plan_.cpu_ns);
    if (done == 0) {
      served.entry_ns = planned_ns - static_cast<uint64_t>(plan_.cpu_ns - node_.cpu.nbd_request);
    }
    done = end;
    const uint64_t read_ns = plan_.runs.empty() ? planned_ns : ReadRuns(planned_ns);
    const bool stays = plan_.transfers.empty() && plan_.fills.empty();
    if (stays && done == blocks) {
      return pending_number == kNoRequest ? Complete(served, read_ns)
                                          : CompletePending(pending_number, read_ns);
    }
    if (stays && plan_.runs.empty()) {
      now_ns = planned_ns;
      continue;
    }
    if (pending_number == kNoRequest) pending_number = TakePending(served);
    Pending& pending = pending_[pending_number];
    pending.end_record = end_record;
    pending.blocks = blocks;
    pending.blocks_done = done;
    pending.next_transfer = 0;
    pending.copies = plan_.copies;
    pending.transfers.swap(plan_.transfers);
    pending.fills.swap(plan_.fills);
    pending.from_capacity.swap(plan_.from_capacity);
    return events_.Add(read_ns, kReadStage, pending_number);
  }
}

uint64_t Simulator::ReadRuns(uint64_t now_ns) {
  uint64_t done_ns = now_ns;
  for (const ReadRun& run : plan_.runs) {
    done_ns =
        std::max(done_ns, cache_->CompletionNs(now_ns, {storage::Io::Kind::kRead,
                                                        uint64_t{run.cache_block} * kBlockBytes,
                                                        uint64_t{run.blocks} * kBlockBytes}));
  }
  return done_ns + DeviceWaitNs();
}

void Simulator::ReadStage(uint32_t number, uint64_t now_ns) {
  Pending& pending = pending_[number];
  const Request& request = load_.requests()[pending.served.record];
  const bool read = request.kind == RequestKind::kRead;
  if (pending.next_transfer < pending.transfers.size()) {
    const Transfer& transfer = pending.transfers[pending.next_transfer++];
    const uint64_t done_ns =
        capacity_devices_[transfer.device]->CompletionNs(
            now_ns, {storage::Io::Kind::kRead, transfer.offset, transfer.bytes}) +
        DeviceWaitNs();
    const bool last = pending.next_transfer == pending.transfers.size();
    if (last && read && pending.fills.empty() && !pending.copies &&
        pending.blocks_done == pending.blocks) {
      CompletePending(number, done_ns);
    } else {
      events_.Add(done_ns, kReadStage, number);
    }
    return;
  }
  if (!read) {
    // The rest of a block that is written in part is here: the write goes on.
    const uint64_t held_ns = HoldUntilNs(now_ns, request.blocks * uint64_t{kBlockBytes});
    events_.Add(std::max(held_ns, now_ns), kHeldWrite, number);
    return;
  }
  uint64_t done_ns = now_ns;
  EndRead(pending.fills, pending.from_capacity, pending.copies, done_ns);
  if (pending.blocks_done == pending.blocks) return CompletePending(number, done_ns);
  Served served = pending.served;
  ReadParts(served, pending.end_record, pending.blocks_done, number, done_ns);
}

void Simulator::EndRead(const std::vector<Fill>& fills, const std::vector<uint32_t>& from_capacity,
                        bool copies, uint64_t& now_ns) {
  for (const Fill& fill : fills) {
    const BlockState& state = table_[fill.block];
    // Not when the block was written or trimmed since.
    if (state.log == fill.log && !IsZeroed(state)) {
      read_cache_.Publish(fill.slot, fill.block);
    } else {
      read_cache_.Discard(fill.slot);
    }
  }
  if (!copies) return;
  double cpu_ns = 0;
  for (const uint32_t block : from_capacity) {
    if (table_[block].log != 0) continue;
    if (!log_.Append({.block = block}, /*dirty=*/false, now_ns)) break;
    ++window_.copied_blocks;
    cpu_ns += node_.cpu.write_block;
  }
  if (cpu_ns > 0) now_ns += static_cast<uint64_t>(cpu_ns);
}

}  // namespace ebb::twin
