#include "env/twin/window_result.h"

namespace ebb::twin {

void Derive(WindowResult& window) {
  env::WindowMetrics& m = window.metrics;
  for (env::OpWindow* op : {&m.read, &m.write, &m.flush}) {
    op->ops = op->latency.count();
    op->p50_ns = op->latency.QuantileNs(0.5);
    op->p99_ns = op->latency.QuantileNs(0.99);
    op->mean_ns = op->latency.MeanNs();
  }
  const uint64_t mapped =
      window.read_blocks_dram + window.read_blocks_cache + window.read_blocks_capacity;
  m.read_hit_share = mapped == 0 ? 0
                                 : 1 - static_cast<double>(window.read_blocks_capacity) /
                                           static_cast<double>(mapped);
}

void Merge(const WindowResult& part, WindowResult& sum) {
  env::WindowMetrics& m = sum.metrics;
  const env::WindowMetrics& p = part.metrics;
  const double seconds = m.seconds + p.seconds;
  const auto add = [](const env::OpWindow& from, env::OpWindow& to) {
    to.bytes += from.bytes;
    to.errors += from.errors;
    to.latency.Merge(from.latency);
  };
  env::OpWindow read = m.read;
  env::OpWindow write = m.write;
  env::OpWindow flush = m.flush;
  add(p.read, read);
  add(p.write, write);
  add(p.flush, flush);
  const double in_flight = (m.mean_in_flight * m.seconds + p.mean_in_flight * p.seconds) / seconds;
  const uint64_t destaged_bytes = m.destaged_bytes + p.destaged_bytes;
  const uint64_t written_bytes = m.capacity_written_bytes + p.capacity_written_bytes;
  const double throttle_seconds = m.throttle_seconds + p.throttle_seconds;
  const double cpu_seconds = m.cpu_seconds + p.cpu_seconds;
  m = p;  // gauges are those of the end
  m.seconds = seconds;
  m.read = std::move(read);
  m.write = std::move(write);
  m.flush = std::move(flush);
  m.mean_in_flight = in_flight;
  m.destaged_bytes = destaged_bytes;
  m.capacity_written_bytes = written_bytes;
  m.throttle_seconds = throttle_seconds;
  m.cpu_seconds = cpu_seconds;
  sum.client.Merge(part.client);
  sum.log_fill = part.log_fill;
  sum.read_blocks_dram += part.read_blocks_dram;
  sum.read_blocks_cache += part.read_blocks_cache;
  sum.read_blocks_capacity += part.read_blocks_capacity;
  sum.read_blocks_unmapped += part.read_blocks_unmapped;
  sum.readahead_blocks += part.readahead_blocks;
  sum.copied_blocks += part.copied_blocks;
  sum.coalesced_blocks += part.coalesced_blocks;
  sum.destage_batches += part.destage_batches;
  sum.compaction_steps += part.compaction_steps;
  sum.late_ns = part.late_ns;
  sum.stream.insert(sum.stream.end(), part.stream.begin(), part.stream.end());
  Derive(sum);
}

}  // namespace ebb::twin
