#include "storage-backend/control/stream_sampler.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kPeriodNs = kNsPerS;
constexpr uint64_t kContentRateMax = 1'000;  // requests a second
constexpr uint64_t kFullRateMax = 8'000;     // likewise
constexpr uint64_t kEighthRateMax = 64'000;  // likewise
constexpr uint32_t kEighthShift = 3;
constexpr uint32_t kSixtyFourthShift = 6;
constexpr uint32_t kContentShift = 3;  // beyond the sample's own

struct Shifts {
  uint32_t all = 0;
  uint32_t content = 0;
};

Shifts ShiftsFor(double requests_per_s) {
  const auto above = [&](uint64_t rate) { return requests_per_s > static_cast<double>(rate); };
  Shifts shifts;
  shifts.all = above(kEighthRateMax) ? kSixtyFourthShift : above(kFullRateMax) ? kEighthShift : 0;
  shifts.content = above(kContentRateMax) ? shifts.all + kContentShift : 0;
  return shifts;
}

// The finaliser of splitmix64: every bit of the region number reaches every bit of the hash.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

StreamSampler::StreamSampler(size_t records_max) : ring_(records_max) {
  EBB_CHECK(records_max > 0);
}

bool StreamSampler::InSample(uint64_t region, uint32_t shift) {
  const uint64_t mask = (uint64_t{1} << shift) - 1;
  return (Mix(region + 1) & mask) == 0;
}

bool StreamSampler::WantsContent(const StreamRecord& record) const {
  return record.op == 'W' &&
         InSample(record.offset / kRegionBytes, content_shift_.load(std::memory_order_relaxed));
}

bool StreamSampler::Sampled(const StreamRecord& record, uint32_t shift) {
  if (shift == 0) return true;
  const uint64_t mask = (uint64_t{1} << shift) - 1;
  // A flush has no place; every 2^shift-th stands for the others.
  if (record.op == 'F') return (flushes_.fetch_add(1, std::memory_order_relaxed) & mask) == 0;
  return InSample(record.offset / kRegionBytes, shift);
}

void StreamSampler::AdaptRate(uint64_t now_ns) {
  uint64_t began_ns = period_began_ns_.load(std::memory_order_relaxed);
  if (now_ns < began_ns + kPeriodNs) return;
  // One of the threads that see the period over closes it.
  if (!period_began_ns_.compare_exchange_strong(began_ns, now_ns)) return;
  const uint64_t seen = seen_.exchange(0, std::memory_order_relaxed);
  const uint64_t elapsed_ns = std::max<uint64_t>(now_ns - began_ns, 1);
  const double per_s =
      static_cast<double>(seen) * static_cast<double>(kNsPerS) / static_cast<double>(elapsed_ns);
  const Shifts shifts = ShiftsFor(per_s);
  shift_.store(shifts.all, std::memory_order_relaxed);
  content_shift_.store(shifts.content, std::memory_order_relaxed);
}

void StreamSampler::ThinOut(uint64_t seen) {
  if (seen != kContentRateMax + 1 && seen != kFullRateMax + 1 && seen != kEighthRateMax + 1) return;
  const auto raise = [](std::atomic<uint32_t>& shift, uint32_t to) {
    if (shift.load(std::memory_order_relaxed) < to) shift.store(to, std::memory_order_relaxed);
  };
  const Shifts shifts = ShiftsFor(static_cast<double>(seen));
  raise(shift_, shifts.all);
  raise(content_shift_, shifts.content);
}

void StreamSampler::Record(const StreamRecord& record) {
  AdaptRate(record.time_ns);
  ThinOut(seen_.fetch_add(1, std::memory_order_relaxed) + 1);
  const uint32_t shift = shift_.load(std::memory_order_relaxed);
  if (!Sampled(record, shift)) return;
  const std::lock_guard lock(mutex_);
  ring_[next_sequence_++ % ring_.size()] = Entry{record, shift};
}

StreamSampler::Slice StreamSampler::Get(uint64_t after, size_t max) const {
  const std::lock_guard lock(mutex_);
  const uint64_t oldest = next_sequence_ > ring_.size() ? next_sequence_ - ring_.size() : 1;
  // A number from before a restart of the node may lie ahead.
  const uint64_t wanted = std::min(after, next_sequence_);
  const uint64_t begin = std::max(wanted, oldest);
  Slice slice;
  slice.dropped = after == 0 ? 0 : begin - wanted;
  slice.next = begin;
  uint32_t shift = begin < next_sequence_ ? ring_[begin % ring_.size()].shift
                                          : shift_.load(std::memory_order_relaxed);
  while (slice.next < next_sequence_ && slice.records.size() < max) {
    const Entry& entry = ring_[slice.next % ring_.size()];
    if (entry.shift != shift) break;
    slice.records.push_back(entry.record);
    ++slice.next;
  }
  slice.sample_rate = 1.0 / static_cast<double>(uint64_t{1} << shift);
  return slice;
}

}  // namespace ebb::storage
