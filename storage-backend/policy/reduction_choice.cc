#include "storage-backend/policy/reduction_choice.h"

#include <algorithm>

namespace ebb::storage {

bool ReductionChoice::Reduce(bool behind) {
  if (!behind) return true;
  for (const bool kind : {true, false}) {
    if (rate_[kind] == 0) return kind;
  }
  const bool faster = rate_[1] >= rate_[0];
  if (++since_trial_ < kBatchesBetweenTrials) return faster;
  since_trial_ = 0;
  return !faster;
}

void ReductionChoice::Done(bool reduced, uint64_t blocks, uint64_t ns) {
  const double rate = static_cast<double>(blocks) / static_cast<double>(std::max<uint64_t>(ns, 1));
  double& known = rate_[reduced];
  known = known == 0 ? rate : 0.7 * known + 0.3 * rate;
}

}  // namespace ebb::storage
