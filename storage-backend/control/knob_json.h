// The wire form of knobs and settings: JSON text in, JSON text out, every fault named.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "storage-backend/control/event_log.h"
#include "storage-backend/control/knob_controller.h"
#include "storage-backend/knobs/knobs.h"

namespace ebb::storage {

// {"nvme_read_share":30,...,"compression":"lz4"}: every knob, choices as words.
std::string SettingToJson(const Setting& setting);
// [{"name":...}, ...] with ranges narrowed by `limits`.
std::string KnobTableToJson(const KnobLimits& limits);
// The result of knobs.get.
std::string KnobStateToJson(const KnobState& state);
// [{"number":...}, ...].
std::string EventsToJson(const std::vector<NodeEvent>& events);

// Reads the parameters of knobs.set. Faults of shape and type are appended to `faults`, one
// sentence each (unknown names with a suggestion); ranges are not judged here.
SetRequest ParseSetRequest(const std::string& params_json, std::vector<std::string>& faults);

}  // namespace ebb::storage
