// The performance index of a window: 100 = what the default setting would give under this load.
//
// PI = 100 * prod_k (m_k / b_k)^(s_k * w_k), with m_k measured, b_k from the BaselineModel, s_k the
// sign of the component and w_k the goal's weight. All arithmetic is in logarithms.
#pragma once

#include <string>

#include "agents/agent.h"
#include "engine/goal/goal.h"
#include "engine/index/baseline_model.h"
#include "env/observation.h"

namespace ebb::engine {

struct IndexReading {
  bool known = false;
  std::string unknown_reason;  // one sentence when !known
  double log_ratio = 0;        // ln(PI / 100): what the guard works with
  double log_sd = 0;           // uncertainty that comes from the baseline model
  double value() const;        // PI; NaN when unknown
};

// An index whose baseline is less certain than this (95 % half width of PI, relative) is not shown.
inline constexpr double kIndexHalfWidthMax = 0.35;

IndexReading EvaluateIndex(const BaselineModel& baseline, const Goal& goal,
                           const env::Observation& observation);

}  // namespace ebb::engine
