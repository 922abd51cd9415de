// Evidence that may be looked at after every window without losing its error rate.
//
// The mixture likelihood ratio of Robbins: the likelihood of the estimate averaged over a half
// normal of effects, divided by its likelihood at the null. Under the null it is a martingale, so
// it ever reaches 1 / alpha with probability at most alpha, however often one looks (Ville). The
// estimate's standard deviation comes from the data, so this holds approximately; the error rates
// that matter are the simulated ones (ebb_guard_bench).
#pragma once

namespace ebb::engine {

// Natural logarithm of the evidence that the effect is above the null (for "below", negate the
// deviate). `deviate` = distance of the estimate from the null in its own standard deviations;
// `spread` = sd of the half normal over the estimate's sd.
double LogEvidence(double deviate, double spread);

// The deviate at which LogEvidence reaches `log_threshold`.
double DeviateForEvidence(double log_threshold, double spread);

}  // namespace ebb::engine
