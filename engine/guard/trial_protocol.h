// TrialProtocol decides over one candidate setting, window by window.
//
//   settling -> screening -> confirming ----------------------> decided
//                  |            A leg, B leg, A leg, B leg, ...    ^
//                  +-- harm, futility, cap, shift, blindness ------+
//
// A pure state machine: windows go in, orders come out; no clock, no I/O, no thread. The caller
// puts the candidate on before the first window and obeys the order of every step (which setting
// shall run in the next window). Windows right after a change of setting are dropped (settling).
// Screening compares the candidate with the windows before the trial; it ends early when the
// candidate is clearly harmful or not worth more windows. A keep is only given after interleaved
// pairs of legs (incumbent, candidate), because a comparison of before and after cannot tell a
// gain from a load that drifted. A candidate that is faster because it leaves work for later is not
// kept either: settling lasts longer while the backlog of destage still moves, and a gain under
// which the backlog keeps growing is borrowed. All tests look at every window and stay valid
// (sequential_test.h). Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/guard/effect_estimator.h"
#include "engine/tuner_service.h"

namespace ebb::engine {

struct TrialConfig {
  uint32_t settle_windows = 1;     // dropped after every change of setting; at least 1
  uint32_t screen_windows = 6;     // measured windows before the first look at futility
  uint32_t leg_windows = 2;        // measured windows in a leg of a pair
  uint32_t pairs_min = 3;          // before a keep
  uint32_t pairs_max = 6;          // then inconclusive
  uint32_t void_windows_max = 5;   // unusable windows before the trial is void
  uint32_t idle_windows_max = 60;  // likewise, of idle ones
  double keep_false_rate = 0.02;   // per trial, of the sequential test
  double harm_false_rate = 0.05;   // a false revert costs a candidate, never the node
  double useful_effect = 0.01;     // relative; a smaller gain is not worth a change
  double prior_effect_sd = 0.10;   // of the log effect, for the mixture
  // Two windows in a row this far below the incumbent (relative, and in noise deviations) end the
  // trial at once; settling windows count here.
  double catastrophe_drop = 0.30;
  double catastrophe_deviations = 4.5;
  // Settling goes on, at most this many times longer, while the backlog moves by more than this
  // share a window; a keep is refused while it grows by more than that.
  double settle_stretch_max = 2;
  double backlog_growth_max = 0.005;
  bool skip_screening = false;  // straight to pairs: re-checks, settings proved before
  EstimatorPriors priors;
};

enum class TrialPhase : uint8_t { kSettling, kScreening, kConfirming, kDecided };

struct TrialWindow {
  int64_t window = 0;      // number of the window, ascending; unusable ones have numbers too
  bool candidate = false;  // the setting that ran
  bool usable = false;     // false: void, index unknown
  double log_index = 0;
  // The setting changed inside the window: fit for settling, not for measuring.
  bool mixture = false;
  // Share of the write space that waits for destage, at the window's end.
  double backlog_share = 0;
  // Not usable because the clients asked for nothing: no fault, but no news either.
  bool idle = false;
};

// What a trial found. Effects are relative changes of the index (+0.10 = 10 % better).
struct TrialVerdict {
  Verdict verdict = Verdict::kPending;
  std::optional<Effect> effect;    // 95 % interval; none when too little was seen
  double smallest_detectable = 0;  // 0: unknown
  uint32_t windows_used = 0;       // all windows since the candidate was applied
  std::string reason;              // one sentence
};

struct TrialStep {
  bool run_candidate = false;  // what shall run in the next window
  bool decided = false;        // then verdict() is final; the caller commits or reverts
};

class TrialProtocol {
 public:
  // `before`: usable windows of the incumbent under this load, oldest first, at least
  // kBeforeWindowsMin; the first trial window must have a higher number.
  static constexpr size_t kBeforeWindowsMin = 10;
  static constexpr size_t kBeforeWindowsMax = 40;
  TrialProtocol(const TrialConfig& config, std::vector<LogSample> before);

  TrialStep Next(const TrialWindow& window);
  // The trial cannot be judged (load shift, node restart, foreign change, operator): void.
  void Abort(const std::string& reason) { Decide(Verdict::kVoid, reason); }
  // The node itself reverted on a trip condition.
  void Tripped(const std::string& reason) { Decide(Verdict::kRevert, reason); }

  TrialPhase phase() const { return phase_; }
  const TrialVerdict& verdict() const { return verdict_; }
  uint32_t pairs_done() const { return pairs_done_; }
  uint32_t windows_used() const { return verdict_.windows_used; }
  // For people: "pair 2 of 3 to 6, effect so far +4.1 % (-1.0 to +9.4)".
  std::string Progress() const;

 private:
  void CountUnusable(bool idle);
  bool CatastropheStruck(const TrialWindow& window);
  void Measure(const TrialWindow& window);
  void NoteBacklog(const TrialWindow& window);
  bool BacklogMoves() const;
  bool GainIsBorrowed() const;
  void JudgeScreening();
  void JudgePair();
  bool Harmful() const;
  void AdvanceLeg();
  void StartLeg(bool candidate);
  void Decide(Verdict verdict, std::string reason);
  double SmallestDetectable() const;
  Effect RelativeEffect() const;

  TrialConfig config_;
  std::vector<LogSample> samples_;
  double before_median_ = 0;
  double before_noise_sd_ = 0;
  TrialPhase phase_ = TrialPhase::kSettling;
  TrialVerdict verdict_;
  EffectEstimate estimate_;
  bool run_candidate_ = true;
  bool confirming_ = false;
  uint32_t settle_left_ = 0;
  uint32_t stretch_left_ = 0;        // settling windows that may be added in this leg
  std::vector<double> leg_backlog_;  // of the present leg
  std::vector<double> growth_;       // of the backlog, in measured windows of the candidate
  uint32_t leg_measured_ = 0;
  uint32_t candidate_measured_ = 0;
  uint32_t pairs_done_ = 0;
  uint32_t void_windows_ = 0;
  uint32_t idle_windows_ = 0;
  uint32_t catastrophe_strikes_ = 0;
};

// `config` for a trial whose knobs need `settle_windows`: slow knobs get longer legs and fewer
// pairs, because every change of the setting costs that many windows.
TrialConfig ForSettleTime(TrialConfig config, uint32_t settle_windows);

std::string_view TrialPhaseWord(TrialPhase phase);
// "+4.1 % (95 % interval -1.0 to +9.4 %)".
std::string EffectText(const Effect& effect);

// The smallest relative gain that a trial can be expected to prove at this noise of one window;
// a smaller predicted gain is not worth a trial. Fitted to simulated trials at 2, 5 and 10 % noise.
double SmallestProvableGain(double noise_sd);

}  // namespace ebb::engine
