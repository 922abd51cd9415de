// What may be set about the control loop; the defaults are the product's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "agents/agent.h"
#include "engine/guard/envelope.h"
#include "engine/guard/schedule.h"
#include "engine/guard/shift_detector.h"
#include "engine/guard/trial_protocol.h"
#include "engine/guard/trip_wires.h"
#include "engine/index/baseline_model.h"
#include "engine/tuner_service.h"
#include "env/environment.h"

namespace ebb::engine {

struct LoopConfig {
  TrialConfig trial;
  EnvelopeConfig envelope;
  ScheduleConfig schedule;
  OnExit on_exit = OnExit::kKeep;  // of nodes attached for the first time
  ShiftConfig shift;
  BaselineConfig baseline;
  TripWireConfig trip_wires;
  uint32_t learn_windows = 20;       // of the default under a new load, before anything is tried
  uint32_t before_windows_min = 12;  // of the incumbent, before a trial
  uint32_t before_windows_age_max = 90;
  uint32_t settle_windows_max = 20;  // caps what the knobs ask for
  uint32_t lease_windows = 5;        // a candidate lives this long without the sidecar
  uint64_t lease_ms_min = 3000;
  // Of the windows run the default, to keep the index honest and to measure the uplift.
  double holdback_share = 0.05;
  uint32_t holdback_block_windows = 10;  // measured; more where a slow knob differs
  uint32_t uplift_hours = 24;            // of the recent uplift
  uint32_t recheck_after_windows = 150;  // probation of a kept change; 0: never
  uint32_t nulls_before_back_off = 3;
  uint32_t back_off_windows = 10;  // doubles with every further null
  uint32_t back_off_windows_max = 120;
  int64_t recommendation_ms = int64_t{24} * 3600 * 1000;  // then it expires
  uint64_t reconnect_ms_min = 500;
  uint64_t reconnect_ms_max = 15'000;
};

// Opens the environment behind a control socket. Called from the loop's thread.
using EnvironmentFactory =
    std::function<absl::StatusOr<std::unique_ptr<env::Environment>>(const std::string& socket)>;
// Makes the agent of a node.
using AgentFactory = std::function<absl::StatusOr<std::unique_ptr<agents::Agent>>(
    const std::string& node, const env::EnvironmentInfo& info, const env::KnobSpace& space)>;

}  // namespace ebb::engine
