#include "storage-backend/control/metrics_text.h"

#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

constexpr std::array<double, 20> kBoundsSeconds = {
    0.000005, 0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
    0.01,     0.025,   0.05,     0.1,     0.25,   0.5,     1,      2.5,   5,      10};
constexpr std::array<double, 6> kQuantiles = {0.5, 0.9, 0.95, 0.99, 0.999, 0.9999};

double Seconds(uint64_t ns) { return static_cast<double>(ns) / static_cast<double>(kNsPerS); }

// 0 where there is nothing to divide by.
double Ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

// Backslash, quote and newline, as the text format wants them in a label.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return escaped;
}

class Page {
 public:
  void Family(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  // Numbers of any kind; counters beyond 2^53 lose their last digits, as in every Prometheus.
  template <typename Number>
  void Sample(std::string_view name, std::string_view labels, Number number) {
    const auto value = static_cast<double>(number);
    text_ += labels.empty() ? fmt::format("{} {}\n", name, value)
                            : fmt::format("{}{{{}}} {}\n", name, labels, value);
  }
  template <typename Number>
  void Counter(std::string_view name, std::string_view help, Number value) {
    Family(name, "counter", help);
    Sample(name, "", value);
  }
  template <typename Number>
  void Gauge(std::string_view name, std::string_view help, Number value) {
    Family(name, "gauge", help);
    Sample(name, "", value);
  }
  // One sample for each value of `label`.
  void Split(std::string_view name, std::string_view type, std::string_view help,
             std::string_view label,
             std::initializer_list<std::pair<const char*, uint64_t>> values) {
    Family(name, type, help);
    for (const auto& [kind, value] : values) {
      Sample(name, fmt::format(R"({}="{}")", label, kind), value);
    }
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

using Kinds = std::array<std::pair<const char*, const OpCounters*>, 4>;

Kinds KindsOf(const VolumeMetrics& metrics) {
  return {{{"read", &metrics.read},
           {"write", &metrics.write},
           {"flush", &metrics.flush},
           {"trim", &metrics.trim}}};
}

void AddHistogram(Page& page, const char* kind, const LatencyHistogram& latency) {
  const auto buckets = latency.Sparse();
  size_t next = 0;
  uint64_t below = 0;
  for (const double bound : kBoundsSeconds) {
    // A bucket belongs to the first bound at or above its end, so a bound never overcounts.
    while (next < buckets.size() &&
           Seconds(LatencyHistogram::BucketHighNs(buckets[next].first)) <= bound) {
      below += buckets[next++].second;
    }
    page.Sample("ebb_request_duration_seconds_bucket",
                fmt::format(R"(kind="{}",le="{}")", kind, bound), below);
  }
  const std::string labels = fmt::format(R"(kind="{}")", kind);
  page.Sample("ebb_request_duration_seconds_bucket", labels + R"(,le="+Inf")", latency.count());
  page.Sample("ebb_request_duration_seconds_sum", labels, Seconds(latency.sum_ns()));
  page.Sample("ebb_request_duration_seconds_count", labels, latency.count());
}

void AddRequests(Page& page, const MetricsFrame& frame, const VolumeMetrics& metrics) {
  const Kinds kinds = KindsOf(metrics);
  const auto each = [&](const char* name, const char* help, uint64_t OpCounters::*field) {
    page.Family(name, "counter", help);
    for (const auto& [kind, op] : kinds) {
      page.Sample(name, fmt::format(R"(kind="{}")", kind), op->*field);
    }
  };
  each("ebb_requests_total", "Requests answered; trim counts write-zeroes too.", &OpCounters::ops);
  each("ebb_request_bytes_total", "Bytes of these requests.", &OpCounters::bytes);
  each("ebb_request_errors_total", "Requests answered with an error.", &OpCounters::errors);
  page.Family("ebb_request_duration_seconds", "histogram",
              "Time from a request's entry to its answer.");
  for (const auto& [kind, op] : kinds) AddHistogram(page, kind, op->latency);
  page.Family("ebb_request_service_seconds", "summary",
              "Quantiles of the same since the node started.");
  for (const auto& [kind, op] : kinds) {
    const std::string label = fmt::format(R"(kind="{}")", kind);
    for (const double quantile : kQuantiles) {
      page.Sample("ebb_request_service_seconds",
                  fmt::format(R"({},quantile="{}")", label, quantile),
                  op->latency.QuantileNs(quantile) / static_cast<double>(kNsPerS));
    }
    page.Sample("ebb_request_service_seconds_sum", label, Seconds(op->latency.sum_ns()));
    page.Sample("ebb_request_service_seconds_count", label, op->latency.count());
  }
  page.Gauge("ebb_requests_in_flight", "Requests being served now.", frame.in_flight);
  page.Counter("ebb_request_in_flight_seconds_total",
               "Integral of requests in flight over time; its rate is the mean queue depth.",
               Seconds(frame.in_flight_ns_sum));
  page.Counter("ebb_throttle_seconds_total", "Time for which writes were held back.",
               Seconds(metrics.throttle_ns));
  page.Counter("ebb_throttled_writes_total", "Writes held back.", metrics.throttled_writes);
}

void AddCache(Page& page, const VolumeMetrics& metrics) {
  page.Split("ebb_read_blocks_total", "counter", "Blocks of 4 KiB read, by where they came from.",
             "source",
             {{"dram", metrics.read_blocks_dram},
              {"cache", metrics.read_blocks_cache},
              {"capacity", metrics.read_blocks_capacity},
              {"unmapped", metrics.read_blocks_unmapped}});
  page.Counter("ebb_readahead_blocks_total", "Blocks read ahead of a sequential stream.",
               metrics.readahead_blocks);
  page.Gauge("ebb_read_cache_used_bytes", "DRAM that holds read blocks.",
             metrics.read_cache_used_bytes);
  page.Split("ebb_cache_bytes", "gauge", "Space of the cache devices by what it holds.", "state",
             {{"dirty", metrics.dirty_bytes},
              {"clean", metrics.clean_bytes},
              {"free", metrics.free_bytes}});
  page.Gauge("ebb_cache_write_space_used_ratio",
             "Share in use of the space that nvme_read_share leaves to writes.",
             metrics.dirty_share);
  page.Gauge("ebb_cache_memory_bytes", "DRAM of the cache log's map and buffers.",
             metrics.cache_memory_bytes);
  page.Gauge("ebb_cache_memory_per_block_bytes", "The same per block of 4 KiB the cache can hold.",
             Ratio(metrics.cache_memory_bytes, metrics.cache_space_bytes / kBlockBytes));
  page.Counter("ebb_cache_user_bytes_total", "Blocks that clients wrote into the cache log.",
               metrics.cache_data_bytes);
  page.Counter("ebb_cache_copied_bytes_total", "Clean copies of capacity blocks written there.",
               metrics.cache_copied_bytes);
  page.Counter("ebb_cache_written_bytes_total", "Everything written to the cache devices.",
               metrics.cache_written_bytes);
}

void AddDestage(Page& page, const VolumeMetrics& metrics, std::optional<double> drain_eta_s) {
  page.Counter("ebb_destage_batches_total", "Batches moved to the capacity tier.",
               metrics.destage_batches);
  page.Counter("ebb_destaged_blocks_total", "Blocks moved to the capacity tier.",
               metrics.destaged_blocks);
  page.Counter("ebb_coalesced_blocks_total",
               "Blocks overwritten in the cache before they were moved.", metrics.coalesced_blocks);
  page.Counter("ebb_deduplicated_blocks_total", "Moved blocks whose content was stored already.",
               metrics.deduplicated_blocks);
  page.Counter("ebb_unreduced_blocks_total",
               "Moved blocks stored without the compression and deduplication asked for, to catch "
               "up.",
               metrics.unreduced_blocks);
  page.Gauge("ebb_unreadable_blocks", "Dirty blocks that the cache device could not read lately.",
             metrics.unreadable_blocks);
  page.Counter("ebb_destage_raw_bytes_total", "Bytes into the codec.", metrics.destage_raw_bytes);
  page.Counter("ebb_destage_stored_bytes_total", "Bytes out of the codec.",
               metrics.destage_stored_bytes);
  page.Counter("ebb_capacity_written_bytes_total", "Everything written to the capacity devices.",
               metrics.capacity_written_bytes);
  page.Family("ebb_write_amplification_ratio", "gauge",
              "Bytes written to a tier per byte that came into it, since the start.");
  page.Sample(
      "ebb_write_amplification_ratio", R"(tier="cache")",
      Ratio(metrics.cache_written_bytes, metrics.cache_data_bytes + metrics.cache_copied_bytes));
  page.Sample("ebb_write_amplification_ratio", R"(tier="capacity")",
              Ratio(metrics.capacity_written_bytes, metrics.destaged_blocks * kBlockBytes));
  page.Gauge("ebb_draining", "1 while somebody waits for the cache to be clean.",
             metrics.draining ? 1 : 0);
  if (drain_eta_s) {
    page.Gauge("ebb_drain_eta_seconds", "When the drain under way will be done.", *drain_eta_s);
  }
  page.Gauge("ebb_destage_stuck", "1 while destage ought to move blocks and does not.",
             metrics.destage_stuck ? 1 : 0);
}

void AddSpaceAndFaults(Page& page, const VolumeMetrics& metrics) {
  page.Split("ebb_space_bytes", "gauge",
             "Capacity tier: written by clients, distinct among that, in use on the devices.",
             "kind",
             {{"logical", metrics.logical_bytes},
              {"unique", metrics.unique_bytes},
              {"physical", metrics.physical_bytes}});
  page.Gauge("ebb_dedup_ratio", "Logical over unique bytes.",
             Ratio(metrics.logical_bytes, metrics.unique_bytes));
  page.Gauge("ebb_compression_ratio", "Bytes into over bytes out of the codec, since the start.",
             Ratio(metrics.destage_raw_bytes, metrics.destage_stored_bytes));
  page.Counter("ebb_device_errors_total", "Reads and log writes that a device failed.",
               metrics.device_errors);
  page.Counter("ebb_checksum_errors_total", "Blocks that did not match their checksum.",
               metrics.checksum_errors);
  page.Gauge("ebb_lost_blocks", "Blocks damaged in the cache before they were moved.",
             metrics.lost_blocks);
  page.Counter("ebb_scrub_scanned_bytes_total", "Bytes the scrubber has verified.",
               metrics.scrub_scanned_bytes);
  page.Counter("ebb_scrub_damaged_blocks_total", "Damaged blocks it found, again in each pass.",
               metrics.scrub_damaged_blocks);
  page.Counter("ebb_scrub_passes_total", "Passes it has completed, over all groups.",
               metrics.scrub_passes);
  page.Gauge("ebb_scrub_progress_ratio", "Share of the pass under way.", metrics.scrub_share);
}

void AddDevices(Page& page, const std::vector<DeviceMetrics>& devices) {
  if (devices.empty()) return;
  const auto labels = [](const DeviceMetrics& device) {
    return fmt::format(R"(group="{}",device="{}")", device.group + 1, device.name);
  };
  page.Family("ebb_device_transfers_in_flight", "gauge",
              "Transfers handed to the device and not back yet: its queue depth.");
  for (const DeviceMetrics& device : devices) {
    page.Sample("ebb_device_transfers_in_flight", labels(device), device.in_flight);
  }
  page.Family("ebb_device_transfers_total", "counter", "Transfers done, the failed ones too.");
  for (const DeviceMetrics& device : devices) {
    for (const auto& [kind, count] :
         {std::pair{"read", device.reads}, {"write", device.writes}, {"flush", device.flushes}}) {
      page.Sample("ebb_device_transfers_total",
                  fmt::format(R"({},kind="{}")", labels(device), kind), count);
    }
  }
  page.Family("ebb_device_transfer_errors_total", "counter", "Transfers that failed.");
  for (const DeviceMetrics& device : devices) {
    page.Sample("ebb_device_transfer_errors_total", labels(device), device.errors);
  }
  page.Family("ebb_device_failing", "gauge", "1 while several transfers failed lately.");
  for (const DeviceMetrics& device : devices) {
    page.Sample("ebb_device_failing", labels(device), device.failing ? 1 : 0);
  }
}

}  // namespace

std::string MetricsToText(const NodeLabels& node, const MetricsFrame& frame,
                          const VolumeMetrics& metrics, const Setting& setting,
                          std::optional<double> drain_eta_s) {
  Page page;
  page.Family("ebb_node_info", "gauge", "What this node is; always 1.");
  page.Sample(
      "ebb_node_info",
      fmt::format(R"(name="{}",uuid="{}",version="{}",device_class="{}")", Escaped(node.name),
                  Escaped(node.uuid), Escaped(node.version), Escaped(node.device_class)),
      1);
  page.Gauge("ebb_uptime_seconds", "Time since the node started.", Seconds(frame.uptime_ns));
  page.Counter("ebb_cpu_seconds_total", "Processor time of the node.", Seconds(frame.busy_cpu_ns));
  AddRequests(page, frame, metrics);
  AddCache(page, metrics);
  AddDestage(page, metrics, drain_eta_s);
  AddSpaceAndFaults(page, metrics);
  AddDevices(page, metrics.devices);
  page.Gauge("ebb_setting_version", "Version of the setting in force.", frame.setting_version);
  page.Family("ebb_knob", "gauge", "Knobs in force; a choice by its position.");
  for (const KnobSpec& spec : KnobTable()) {
    page.Sample("ebb_knob", fmt::format(R"(knob="{}")", spec.name), setting[spec.id]);
  }
  return page.Take();
}

}  // namespace ebb::storage
