#include "api/rest/metrics_text.h"

#include <map>
#include <sstream>

#include "api/rest/words.h"
#include "prometheus/metric_family.h"
#include "prometheus/metric_type.h"
#include "prometheus/text_serializer.h"

namespace ebb::rest {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Label = ClientMetric::Label;
using Labels = std::vector<Label>;

// Bounds of the exported latency histograms; the finer buckets of LatencyHistogram are summed.
constexpr std::array<double, 18> kLatencyBoundsSeconds = {
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
    0.01,    0.025,    0.05,    0.1,    0.25,    0.5,    1,     2.5,    10};

// Families in the order of their first use, each declared with its help.
class Families {
 public:
  MetricFamily& Declare(const std::string& name, const std::string& help, MetricType type) {
    families_.push_back({name, help, type, {}});
    return families_.back();
  }
  void Gauge(const std::string& name, const Labels& labels, double value) {
    ClientMetric metric;
    metric.label = labels;
    metric.gauge.value = value;
    Find(name).metric.push_back(std::move(metric));
  }
  void Counter(const std::string& name, const Labels& labels, double value) {
    ClientMetric metric;
    metric.label = labels;
    metric.counter.value = value;
    Find(name).metric.push_back(std::move(metric));
  }
  void Histogram(const std::string& name, const Labels& labels, const LatencyHistogram& latency) {
    ClientMetric metric;
    metric.label = labels;
    metric.histogram.sample_count = latency.count();
    metric.histogram.sample_sum = static_cast<double>(latency.sum_ns()) / 1e9;
    const auto buckets = latency.Sparse();
    size_t next = 0;
    uint64_t below = 0;
    for (const double bound : kLatencyBoundsSeconds) {
      // A bucket belongs to the first bound at or above its end, so a bound never overcounts.
      while (next < buckets.size() &&
             static_cast<double>(LatencyHistogram::BucketHighNs(buckets[next].first)) / 1e9 <=
                 bound) {
        below += buckets[next++].second;
      }
      metric.histogram.bucket.push_back({below, bound});
    }
    Find(name).metric.push_back(std::move(metric));
  }
  const std::vector<MetricFamily>& all() const { return families_; }

 private:
  MetricFamily& Find(const std::string& name) {
    for (MetricFamily& family : families_) {
      if (family.name == name) return family;
    }
    return Declare(name, name, MetricType::Untyped);
  }
  std::vector<MetricFamily> families_;
};

void DeclareAll(Families& families) {
  const struct {
    const char* name;
    MetricType type;
    const char* help;
  } kFamilies[] = {
      {"ebb_build_info", MetricType::Gauge, "Always 1; the label tells the version."},
      {"ebb_http_responses_total", MetricType::Counter, "Answers of the REST interface."},
      {"ebb_node_up", MetricType::Gauge, "1 while the node answers on its control socket."},
      {"ebb_io_operations_total", MetricType::Counter,
       "Requests completed by the node since attach."},
      {"ebb_io_bytes_total", MetricType::Counter, "Bytes read and written since attach."},
      {"ebb_io_errors_total", MetricType::Counter, "Requests failed since attach."},
      {"ebb_io_latency_seconds", MetricType::Histogram,
       "Time from a request's arrival at the node to its answer."},
      {"ebb_cache_bytes", MetricType::Gauge, "Cache device space by state."},
      {"ebb_cache_read_hit_ratio", MetricType::Gauge,
       "Share of blocks read without the capacity tier, last window."},
      {"ebb_destage_bytes_total", MetricType::Counter,
       "Bytes moved from the cache to the capacity tier since attach."},
      {"ebb_capacity_written_bytes_total", MetricType::Counter,
       "Bytes written to capacity devices since attach, after reduction."},
      {"ebb_write_throttle_seconds_total", MetricType::Counter,
       "Time that writes were held back since attach."},
      {"ebb_node_cpu_seconds_total", MetricType::Counter,
       "Processor time of the node since attach."},
      {"ebb_logical_bytes", MetricType::Gauge, "Bytes that clients see as written."},
      {"ebb_unique_bytes", MetricType::Gauge, "Bytes left after deduplication."},
      {"ebb_physical_bytes", MetricType::Gauge, "Bytes taken on capacity devices."},
      {"ebb_performance_index_ratio", MetricType::Gauge,
       "Performance index of the last window; 1 is the default setting under the same load."},
      {"ebb_tuner_mode", MetricType::Gauge, "1 for the mode in force, 0 for the others."},
      {"ebb_tuner_state", MetricType::Gauge, "1 for the state of the tuner, 0 for the others."},
      {"ebb_tuner_paused", MetricType::Gauge, "1 while tuning is paused."},
      {"ebb_tuner_baseline_progress_ratio", MetricType::Gauge,
       "How much of the baseline has been learned."},
      {"ebb_tuner_changes_total", MetricType::Counter, "Decided changes since attach."},
      {"ebb_tuner_windows_total", MetricType::Counter, "Measurement windows since attach."},
      {"ebb_tuner_void_windows_total", MetricType::Counter,
       "Windows since attach whose numbers could not be trusted."},
      {"ebb_knob_value", MetricType::Gauge,
       "Value of a knob; a choice is its position in the list of choices."},
      {"ebb_knob_pinned", MetricType::Gauge, "1 while an operator keeps the knob from the tuner."},
  };
  for (const auto& family : kFamilies) families.Declare(family.name, family.help, family.type);
}

void AddIo(Families& families, const Labels& node, const engine::NodeTotals& totals) {
  const std::pair<const char*, const engine::OpTotals*> kOps[] = {
      {"read", &totals.read}, {"write", &totals.write}, {"flush", &totals.flush}};
  for (const auto& [op, sums] : kOps) {
    Labels labels = node;
    labels.push_back({"op", op});
    families.Counter("ebb_io_operations_total", labels, static_cast<double>(sums->ops));
    families.Counter("ebb_io_errors_total", labels, static_cast<double>(sums->errors));
    families.Histogram("ebb_io_latency_seconds", labels, sums->latency);
    if (sums != &totals.flush) {
      families.Counter("ebb_io_bytes_total", labels, static_cast<double>(sums->bytes));
    }
  }
  families.Counter("ebb_destage_bytes_total", node, static_cast<double>(totals.destaged_bytes));
  families.Counter("ebb_capacity_written_bytes_total", node,
                   static_cast<double>(totals.capacity_written_bytes));
  families.Counter("ebb_write_throttle_seconds_total", node, totals.throttle_seconds);
  families.Counter("ebb_node_cpu_seconds_total", node, totals.cpu_seconds);
}

void AddLatest(Families& families, const Labels& node, const env::WindowMetrics& metrics) {
  const std::pair<const char*, uint64_t> kStates[] = {
      {"clean", metrics.clean_bytes}, {"dirty", metrics.dirty_bytes}, {"free", metrics.free_bytes}};
  for (const auto& [state, bytes] : kStates) {
    Labels labels = node;
    labels.push_back({"state", state});
    families.Gauge("ebb_cache_bytes", labels, static_cast<double>(bytes));
  }
  families.Gauge("ebb_cache_read_hit_ratio", node, metrics.read_hit_share);
  families.Gauge("ebb_logical_bytes", node, static_cast<double>(metrics.logical_bytes));
  families.Gauge("ebb_unique_bytes", node, static_cast<double>(metrics.unique_bytes));
  families.Gauge("ebb_physical_bytes", node, static_cast<double>(metrics.physical_bytes));
}

template <size_t kCount>
void AddStateSet(Families& families, const std::string& family, const Labels& node,
                 const std::string& label, const std::array<std::string_view, kCount>& words,
                 size_t present) {
  for (size_t i = 0; i < kCount; ++i) {
    Labels labels = node;
    labels.push_back({label, std::string(words[i])});
    families.Gauge(family, labels, i == present ? 1 : 0);
  }
}

void AddTuner(Families& families, const Labels& node, const engine::NodeStatus& status) {
  if (status.index_now) {
    Labels labels = node;
    labels.push_back({"goal", std::string(engine::GoalName(status.goal))});
    families.Gauge("ebb_performance_index_ratio", labels, *status.index_now / 100.0);
  }
  AddStateSet(families, "ebb_tuner_mode", node, "mode", ModeWords(),
              static_cast<size_t>(status.mode));
  AddStateSet(families, "ebb_tuner_state", node, "state", TunerStateWords(),
              static_cast<size_t>(status.state));
  families.Gauge("ebb_tuner_paused", node, status.paused ? 1 : 0);
  families.Gauge("ebb_tuner_baseline_progress_ratio", node, status.baseline_progress);
  const auto outcomes = OutcomeWords();
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (static_cast<engine::Verdict>(i) == engine::Verdict::kPending) continue;
    Labels labels = node;
    labels.push_back({"outcome", std::string(outcomes[i])});
    families.Counter("ebb_tuner_changes_total", labels,
                     static_cast<double>(status.totals.changes[i]));
  }
  families.Counter("ebb_tuner_windows_total", node, static_cast<double>(status.windows));
  families.Counter("ebb_tuner_void_windows_total", node, static_cast<double>(status.void_windows));
}

}  // namespace

std::string MetricsText(const MetricsInput& input) {
  Families families;
  DeclareAll(families);
  families.Gauge("ebb_build_info", {{"version", input.version}}, 1);
  for (size_t hundreds = 2; hundreds < input.answers.size(); ++hundreds) {
    families.Counter("ebb_http_responses_total", {{"code", std::to_string(hundreds) + "xx"}},
                     static_cast<double>(input.answers[hundreds]));
  }
  for (const auto& [status, knobs] : input.nodes) {
    const Labels node = {{"node", status.id}};
    families.Gauge("ebb_node_up", node, status.connected ? 1 : 0);
    AddIo(families, node, status.totals);
    if (status.latest) AddLatest(families, node, status.latest->metrics);
    AddTuner(families, node, status);
    for (const engine::KnobState& knob : knobs) {
      Labels labels = node;
      labels.push_back({"knob", knob.spec.name});
      families.Gauge("ebb_knob_value", labels, static_cast<double>(knob.value));
      families.Gauge("ebb_knob_pinned", labels, knob.pinned ? 1 : 0);
    }
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families.all());
  return out.str();
}

}  // namespace ebb::rest
