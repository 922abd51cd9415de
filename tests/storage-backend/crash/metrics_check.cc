#include "tests/storage-backend/crash/metrics_check.h"

#include <cmath>

#include "fmt/format.h"

namespace ebb::storage {
namespace {

// No test moves as much: a larger number is one that went below zero.
constexpr uint64_t kPlausibleMax = uint64_t{1} << 50;

template <typename Visit>
void ForEachNumber(const VolumeMetrics& m, const Visit& visit) {
  const auto op = [&](const char* name, const OpCounters& counters) {
    visit(fmt::format("{}.ops", name), counters.ops, true);
    visit(fmt::format("{}.bytes", name), counters.bytes, true);
    visit(fmt::format("{}.errors", name), counters.errors, true);
    visit(fmt::format("{}.latency.count", name), counters.latency.count(), true);
  };
  op("read", m.read);
  op("write", m.write);
  op("flush", m.flush);
  op("trim", m.trim);
  visit("read_blocks_dram", m.read_blocks_dram, true);
  visit("read_blocks_cache", m.read_blocks_cache, true);
  visit("read_blocks_capacity", m.read_blocks_capacity, true);
  visit("read_blocks_unmapped", m.read_blocks_unmapped, true);
  visit("readahead_blocks", m.readahead_blocks, true);
  visit("cache_data_bytes", m.cache_data_bytes, true);
  visit("cache_copied_bytes", m.cache_copied_bytes, true);
  visit("cache_written_bytes", m.cache_written_bytes, true);
  visit("throttle_ns", m.throttle_ns, true);
  visit("throttled_writes", m.throttled_writes, true);
  visit("destage_batches", m.destage_batches, true);
  visit("destaged_blocks", m.destaged_blocks, true);
  visit("coalesced_blocks", m.coalesced_blocks, true);
  visit("deduplicated_blocks", m.deduplicated_blocks, true);
  visit("unreduced_blocks", m.unreduced_blocks, true);
  visit("unreadable_blocks", m.unreadable_blocks, false);
  visit("destage_raw_bytes", m.destage_raw_bytes, true);
  visit("destage_stored_bytes", m.destage_stored_bytes, true);
  visit("capacity_written_bytes", m.capacity_written_bytes, true);
  visit("device_errors", m.device_errors, true);
  visit("checksum_errors", m.checksum_errors, true);
  visit("cache_space_bytes", m.cache_space_bytes, false);
  visit("dirty_bytes", m.dirty_bytes, false);
  visit("clean_bytes", m.clean_bytes, false);
  visit("free_bytes", m.free_bytes, false);
  visit("cache_memory_bytes", m.cache_memory_bytes, false);
  visit("logical_bytes", m.logical_bytes, false);
  visit("unique_bytes", m.unique_bytes, false);
  visit("physical_bytes", m.physical_bytes, false);
  visit("read_cache_used_bytes", m.read_cache_used_bytes, false);
  visit("lost_blocks", m.lost_blocks, false);
}

}  // namespace

std::string MetricsFault(const VolumeMetrics& m) {
  std::string fault;
  ForEachNumber(m, [&](const std::string& name, uint64_t value, bool) {
    if (value > kPlausibleMax) fault = fmt::format("{} is {}", name, value);
  });
  if (!fault.empty()) return fault;
  if (m.dirty_bytes + m.clean_bytes + m.free_bytes != m.cache_space_bytes) {
    return fmt::format("dirty {} + clean {} + free {} is not the cache's space {}", m.dirty_bytes,
                       m.clean_bytes, m.free_bytes, m.cache_space_bytes);
  }
  if (m.unique_bytes > m.logical_bytes) {
    return fmt::format("unique {} above logical {}", m.unique_bytes, m.logical_bytes);
  }
  if (!std::isfinite(m.dirty_share) || m.dirty_share < 0) {
    return fmt::format("dirty_share is {}", m.dirty_share);
  }
  if (m.dirty_bytes > 0 && m.dirty_share == 0) {
    return fmt::format("{} dirty bytes in no share of the write space", m.dirty_bytes);
  }
  for (const OpCounters* op : {&m.read, &m.write, &m.flush, &m.trim}) {
    if (op->errors > op->ops) return fmt::format("{} errors in {} requests", op->errors, op->ops);
  }
  return "";
}

std::string MetricsFault(const VolumeMetrics& before, const VolumeMetrics& after) {
  std::vector<uint64_t> old_values;
  ForEachNumber(before,
                [&](const std::string&, uint64_t value, bool) { old_values.push_back(value); });
  std::string fault;
  size_t i = 0;
  ForEachNumber(after, [&](const std::string& name, uint64_t value, bool counts_up) {
    const uint64_t old_value = old_values[i++];
    if (counts_up && value < old_value) {
      fault = fmt::format("{} went from {} back to {}", name, old_value, value);
    }
  });
  return fault;
}

}  // namespace ebb::storage
