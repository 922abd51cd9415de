#include "storage-backend/volume/op_stats.h"

#include <atomic>

namespace ebb::storage {
namespace {

void Add(OpCounters& counters, uint64_t bytes, uint64_t latency_ns, bool ok) {
  ++counters.ops;
  counters.bytes += bytes;
  if (!ok) ++counters.errors;
  counters.latency.Record(latency_ns);
}

void Merge(OpCounters& into, const OpCounters& from) {
  into.ops += from.ops;
  into.bytes += from.bytes;
  into.errors += from.errors;
  into.latency.Merge(from.latency);
}

}  // namespace

OpStats::Stripe& OpStats::OwnStripe() {
  static std::atomic<size_t> next_thread{0};
  thread_local const size_t kThread = next_thread.fetch_add(1, std::memory_order_relaxed);
  return stripes_[kThread % kStripeCount];
}

void OpStats::Record(Op op, uint64_t bytes, uint64_t latency_ns, bool ok) {
  Stripe& stripe = OwnStripe();
  const std::lock_guard lock(stripe.mutex);
  Add(stripe.ops[static_cast<size_t>(op)], bytes, latency_ns, ok);
}

void OpStats::RecordRead(uint64_t bytes, uint64_t latency_ns, bool ok, const ReadSources& sources) {
  Stripe& stripe = OwnStripe();
  const std::lock_guard lock(stripe.mutex);
  Add(stripe.ops[static_cast<size_t>(Op::kRead)], bytes, latency_ns, ok);
  stripe.sources.dram_blocks += sources.dram_blocks;
  stripe.sources.cache_blocks += sources.cache_blocks;
  stripe.sources.capacity_blocks += sources.capacity_blocks;
  stripe.sources.unmapped_blocks += sources.unmapped_blocks;
  stripe.sources.readahead_blocks += sources.readahead_blocks;
}

void OpStats::RecordThrottle(uint64_t ns) {
  Stripe& stripe = OwnStripe();
  const std::lock_guard lock(stripe.mutex);
  stripe.throttle_ns += ns;
  ++stripe.throttled_writes;
}

void OpStats::Sum(VolumeMetrics& metrics) {
  for (const Stripe& stripe : stripes_) {
    const std::lock_guard lock(stripe.mutex);
    Merge(metrics.read, stripe.ops[static_cast<size_t>(Op::kRead)]);
    Merge(metrics.write, stripe.ops[static_cast<size_t>(Op::kWrite)]);
    Merge(metrics.flush, stripe.ops[static_cast<size_t>(Op::kFlush)]);
    Merge(metrics.trim, stripe.ops[static_cast<size_t>(Op::kTrim)]);
    metrics.read_blocks_dram += stripe.sources.dram_blocks;
    metrics.read_blocks_cache += stripe.sources.cache_blocks;
    metrics.read_blocks_capacity += stripe.sources.capacity_blocks;
    metrics.read_blocks_unmapped += stripe.sources.unmapped_blocks;
    metrics.readahead_blocks += stripe.sources.readahead_blocks;
    metrics.throttle_ns += stripe.throttle_ns;
    metrics.throttled_writes += stripe.throttled_writes;
  }
}

uint64_t OpStats::Count(Op op) const {
  uint64_t count = 0;
  for (const Stripe& stripe : stripes_) {
    const std::lock_guard lock(stripe.mutex);
    count += stripe.ops[static_cast<size_t>(op)].ops;
  }
  return count;
}

uint64_t OpStats::reads() const { return Count(Op::kRead); }

uint64_t OpStats::writes() const { return Count(Op::kWrite) + Count(Op::kTrim); }

}  // namespace ebb::storage
