#include "storage-backend/control/metrics_json.h"

#include "nlohmann/json.hpp"

namespace ebb::storage {
namespace {

using Json = nlohmann::json;

Json OpJson(const OpCounters& op) {
  return {{"ops", op.ops},
          {"bytes", op.bytes},
          {"errors", op.errors},
          {"latency", {{"sum_ns", op.latency.sum_ns()}, {"buckets", op.latency.Sparse()}}}};
}

Json DevicesJson(const std::vector<DeviceMetrics>& devices) {
  Json list = Json::array();
  for (const DeviceMetrics& device : devices) {
    list.push_back({{"group", device.group + 1},
                    {"name", device.name},
                    {"in_flight", device.in_flight},
                    {"reads", device.reads},
                    {"writes", device.writes},
                    {"flushes", device.flushes},
                    {"errors", device.errors},
                    {"failing", device.failing}});
  }
  return list;
}

}  // namespace

std::string MetricsToJson(const MetricsFrame& frame, const VolumeMetrics& metrics) {
  const Json counters = {{"read_blocks_dram", metrics.read_blocks_dram},
                         {"read_blocks_cache", metrics.read_blocks_cache},
                         {"read_blocks_capacity", metrics.read_blocks_capacity},
                         {"read_blocks_unmapped", metrics.read_blocks_unmapped},
                         {"readahead_blocks", metrics.readahead_blocks},
                         {"cache_data_bytes", metrics.cache_data_bytes},
                         {"cache_written_bytes", metrics.cache_written_bytes},
                         {"throttle_ns", metrics.throttle_ns},
                         {"throttled_writes", metrics.throttled_writes},
                         {"destage_batches", metrics.destage_batches},
                         {"destaged_blocks", metrics.destaged_blocks},
                         {"coalesced_blocks", metrics.coalesced_blocks},
                         {"deduplicated_blocks", metrics.deduplicated_blocks},
                         {"unreduced_blocks", metrics.unreduced_blocks},
                         {"destage_raw_bytes", metrics.destage_raw_bytes},
                         {"destage_stored_bytes", metrics.destage_stored_bytes},
                         {"capacity_written_bytes", metrics.capacity_written_bytes},
                         {"device_errors", metrics.device_errors},
                         {"checksum_errors", metrics.checksum_errors},
                         {"lost_blocks", metrics.lost_blocks},
                         {"cache_copied_bytes", metrics.cache_copied_bytes},
                         {"scrub_scanned_bytes", metrics.scrub_scanned_bytes},
                         {"scrub_damaged_blocks", metrics.scrub_damaged_blocks},
                         {"scrub_passes", metrics.scrub_passes},
                         {"in_flight_ns_sum", frame.in_flight_ns_sum},
                         {"busy_cpu_ns", frame.busy_cpu_ns}};
  const Json gauges = {{"cache_space_bytes", metrics.cache_space_bytes},
                       {"dirty_bytes", metrics.dirty_bytes},
                       {"clean_bytes", metrics.clean_bytes},
                       {"free_bytes", metrics.free_bytes},
                       {"dirty_share", metrics.dirty_share},
                       {"unreadable_blocks", metrics.unreadable_blocks},
                       {"draining", metrics.draining},
                       {"destage_stuck", metrics.destage_stuck},
                       {"scrub_share", metrics.scrub_share},
                       {"cache_memory_bytes", metrics.cache_memory_bytes},
                       {"logical_bytes", metrics.logical_bytes},
                       {"unique_bytes", metrics.unique_bytes},
                       {"physical_bytes", metrics.physical_bytes},
                       {"read_cache_used_bytes", metrics.read_cache_used_bytes},
                       {"in_flight", frame.in_flight}};
  const Json result = {{"wall_ms", frame.wall_ms},
                       {"monotonic_ns", frame.monotonic_ns},
                       {"uptime_ns", frame.uptime_ns},
                       {"node_epoch", frame.node_epoch},
                       {"setting_version", frame.setting_version},
                       {"ops",
                        {{"read", OpJson(metrics.read)},
                         {"write", OpJson(metrics.write)},
                         {"flush", OpJson(metrics.flush)},
                         {"trim", OpJson(metrics.trim)}}},
                       {"counters", counters},
                       {"gauges", gauges},
                       {"devices", DevicesJson(metrics.devices)}};
  return result.dump();
}

}  // namespace ebb::storage
