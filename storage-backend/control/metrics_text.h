// The metrics of a node as Prometheus text: the result of metrics.text and of `ebb node metrics`.
//
// Names follow Prometheus' rules (base units, _total, no type in the name); `promtool check
// metrics` finds nothing to say. The sidecar has metrics of its own (api/rest/metrics_text.h).
#pragma once

#include <optional>
#include <string>

#include "storage-backend/control/metrics_json.h"
#include "storage-backend/knobs/knobs.h"
#include "storage-backend/volume/volume.h"

namespace ebb::storage {

struct NodeLabels {
  std::string name;
  std::string uuid;
  std::string version;
  std::string device_class;
};

std::string MetricsToText(const NodeLabels& node, const MetricsFrame& frame,
                          const VolumeMetrics& metrics, const Setting& setting,
                          std::optional<double> drain_eta_s);

}  // namespace ebb::storage
