#include "engine/guard/trial_protocol.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/guard/sequential_test.h"

namespace ebb::engine {
namespace {

// Deviates of the effect from zero below which more windows are not worth their cost: after
// screening, after the first pair, after the second and so on.
constexpr std::array<double, 5> kFutileDeviate = {0.0, 0.5, 1.0, 1.4, 1.7};
// Power asked of "the smallest effect this trial could have seen": 80 %.
constexpr double kPowerDeviate = 0.8416;
// The estimate needs windows of the candidate before harm is judged.
constexpr uint32_t kHarmWindowsMin = 2;

// The backlog moves when it did over so many windows; its growth is judged with at least so many.
constexpr size_t kBacklogWindows = 3;
constexpr size_t kGrowthWindowsMin = 6;

uint32_t StretchWindows(const TrialConfig& config) {
  return static_cast<uint32_t>(std::max(0.0, config.settle_stretch_max - 1) *
                               config.settle_windows);
}

double Percent(double relative) { return 100 * relative; }

double FutileDeviate(uint32_t pairs_done) {
  return kFutileDeviate[std::min<size_t>(pairs_done, kFutileDeviate.size() - 1)];
}

}  // namespace

std::string_view TrialPhaseWord(TrialPhase phase) {
  constexpr std::array<std::string_view, 4> kWords = {"settling", "screening", "confirming",
                                                      "decided"};
  return kWords[static_cast<size_t>(phase)];
}

std::string EffectText(const Effect& effect) {
  return fmt::format("{:+.1f} % (95 % interval {:+.1f} to {:+.1f} %)", Percent(effect.mean),
                     Percent(effect.low), Percent(effect.high));
}

TrialConfig ForSettleTime(TrialConfig config, uint32_t settle_windows) {
  config.settle_windows = std::max(1U, settle_windows);
  if (settle_windows > 2) {
    config.leg_windows = settle_windows > 5 ? 4 : 3;
    config.pairs_min = 2;
    config.pairs_max = settle_windows > 5 ? 3 : 4;
  }
  return config;
}

double SmallestProvableGain(double noise_sd) { return std::expm1(1.5 * noise_sd); }

TrialProtocol::TrialProtocol(const TrialConfig& config, std::vector<LogSample> before)
    : config_(config), samples_(std::move(before)) {
  EBB_CHECK(samples_.size() >= kBeforeWindowsMin);
  EBB_CHECK(config_.settle_windows >= 1 && config_.leg_windows >= 1);
  EBB_CHECK(config_.pairs_min >= 1 && config_.pairs_max >= config_.pairs_min);
  if (samples_.size() > kBeforeWindowsMax) {
    samples_.erase(samples_.begin(), samples_.end() - static_cast<ptrdiff_t>(kBeforeWindowsMax));
  }
  std::vector<double> logs;
  for (LogSample& sample : samples_) {
    sample.candidate = false;
    logs.push_back(sample.log_index);
  }
  std::nth_element(logs.begin(), logs.begin() + static_cast<ptrdiff_t>(logs.size() / 2),
                   logs.end());
  before_median_ = logs[logs.size() / 2];
  before_noise_sd_ = EstimateNoise(samples_, config_.priors).noise_sd;
  settle_left_ = config_.settle_windows;
  stretch_left_ = StretchWindows(config_);
  confirming_ = config_.skip_screening;
}

TrialStep TrialProtocol::Next(const TrialWindow& window) {
  EBB_CHECK(phase_ != TrialPhase::kDecided);
  EBB_CHECK(window.window > samples_.back().window);
  ++verdict_.windows_used;
  NoteBacklog(window);
  const bool usable =
      window.usable && window.candidate == run_candidate_ && (!window.mixture || settle_left_ > 0);
  if (usable && CatastropheStruck(window)) {
    Decide(Verdict::kRevert,
           fmt::format("two windows in a row were at least {:.0f} % below the incumbent",
                       Percent(config_.catastrophe_drop)));
  } else if (settle_left_ > 0) {
    // Settling is a matter of time: a window that shows nothing counts as well.
    if (--settle_left_ == 0 && stretch_left_ > 0 && BacklogMoves()) {
      --stretch_left_;
      settle_left_ = 1;
    }
    if (settle_left_ == 0) {
      phase_ = confirming_ ? TrialPhase::kConfirming : TrialPhase::kScreening;
    }
  } else if (usable) {
    Measure(window);
  } else {
    CountUnusable(window.idle);
  }
  return {run_candidate_ && phase_ != TrialPhase::kDecided, phase_ == TrialPhase::kDecided};
}

void TrialProtocol::NoteBacklog(const TrialWindow& window) {
  if (settle_left_ == 0 && window.candidate && !leg_backlog_.empty()) {
    growth_.push_back(window.backlog_share - leg_backlog_.back());
  }
  leg_backlog_.push_back(window.backlog_share);
}

bool TrialProtocol::BacklogMoves() const {
  const size_t steps = std::min(kBacklogWindows, leg_backlog_.size() - 1);
  if (steps == 0) return false;
  const double moved = leg_backlog_.back() - leg_backlog_[leg_backlog_.size() - 1 - steps];
  return std::abs(moved) > config_.backlog_growth_max * static_cast<double>(steps);
}

// Growth that stands out of its own ups and downs: a load in bursts fills and drains.
bool TrialProtocol::GainIsBorrowed() const {
  if (growth_.size() < kGrowthWindowsMin) return false;
  const auto count = static_cast<double>(growth_.size());
  double mean = 0;
  for (const double growth : growth_) mean += growth / count;
  double variance = 0;
  for (const double growth : growth_) variance += (growth - mean) * (growth - mean) / (count - 1);
  return mean > config_.backlog_growth_max && mean > 2 * std::sqrt(variance / count);
}

void TrialProtocol::CountUnusable(bool idle) {
  uint32_t& count = idle ? idle_windows_ : void_windows_;
  if (++count <= (idle ? config_.idle_windows_max : config_.void_windows_max)) return;
  Decide(Verdict::kVoid, fmt::format("{} windows of this trial {}", count,
                                     idle ? "were idle" : "could not be used"));
}

bool TrialProtocol::CatastropheStruck(const TrialWindow& window) {
  if (!window.candidate) return false;
  const double drop = before_median_ - window.log_index;
  const bool strike = drop > -std::log1p(-config_.catastrophe_drop) &&
                      drop > config_.catastrophe_deviations * before_noise_sd_;
  catastrophe_strikes_ = strike ? catastrophe_strikes_ + 1 : 0;
  return catastrophe_strikes_ >= 2;
}

void TrialProtocol::Measure(const TrialWindow& window) {
  samples_.push_back({window.window, window.candidate, window.log_index});
  ++leg_measured_;
  if (window.candidate) ++candidate_measured_;
  if (candidate_measured_ == 0) return AdvanceLeg();
  estimate_ = EstimateEffect(samples_, config_.priors);
  verdict_.effect = RelativeEffect();
  verdict_.smallest_detectable = SmallestDetectable();
  if (candidate_measured_ >= kHarmWindowsMin && Harmful()) {
    return Decide(Verdict::kRevert,
                  fmt::format("the candidate is worse: {}", EffectText(*verdict_.effect)));
  }
  if (!confirming_) return JudgeScreening();
  AdvanceLeg();
}

bool TrialProtocol::Harmful() const {
  return LogEvidence(-estimate_.NormalDeviate(0), config_.prior_effect_sd / estimate_.sd) >=
         -std::log(config_.harm_false_rate);
}

void TrialProtocol::JudgeScreening() {
  if (leg_measured_ < config_.screen_windows) return;
  if (estimate_.NormalDeviate(0) < FutileDeviate(0)) {
    return Decide(Verdict::kInconclusive, fmt::format("no gain in sight after {} windows: {}",
                                                      leg_measured_, EffectText(*verdict_.effect)));
  }
  confirming_ = true;
  StartLeg(false);
}

void TrialProtocol::AdvanceLeg() {
  if (leg_measured_ < config_.leg_windows) return;
  if (!run_candidate_) return StartLeg(true);
  ++pairs_done_;
  JudgePair();
  if (phase_ != TrialPhase::kDecided) StartLeg(false);
}

void TrialProtocol::JudgePair() {
  const double deviate = estimate_.NormalDeviate(0);
  const double evidence = LogEvidence(deviate, config_.prior_effect_sd / estimate_.sd);
  if (pairs_done_ >= config_.pairs_min && evidence >= -std::log(config_.keep_false_rate) &&
      verdict_.effect->mean >= config_.useful_effect) {
    if (GainIsBorrowed()) {
      return Decide(Verdict::kInconclusive,
                    fmt::format("the gain is borrowed, because data waiting for destage keeps "
                                "growing under it: {}",
                                EffectText(*verdict_.effect)));
    }
    return Decide(Verdict::kKeep, fmt::format("better in {} interleaved pairs: {}", pairs_done_,
                                              EffectText(*verdict_.effect)));
  }
  if (deviate < FutileDeviate(pairs_done_)) {
    return Decide(Verdict::kInconclusive,
                  fmt::format("no gain proved after {} interleaved pairs: {}", pairs_done_,
                              EffectText(*verdict_.effect)));
  }
  if (pairs_done_ >= config_.pairs_max) {
    Decide(Verdict::kInconclusive,
           fmt::format("not proved within the limit of {} pairs: {}; an effect of {:.1f} % would "
                       "have been seen",
                       pairs_done_, EffectText(*verdict_.effect),
                       Percent(verdict_.smallest_detectable)));
  }
}

void TrialProtocol::StartLeg(bool candidate) {
  leg_measured_ = 0;
  leg_backlog_.clear();
  if (candidate != run_candidate_) {
    settle_left_ = config_.settle_windows;
    stretch_left_ = StretchWindows(config_);
  }
  run_candidate_ = candidate;
  catastrophe_strikes_ = 0;
  phase_ = settle_left_ > 0 ? TrialPhase::kSettling : TrialPhase::kConfirming;
}

void TrialProtocol::Decide(Verdict verdict, std::string reason) {
  phase_ = TrialPhase::kDecided;
  run_candidate_ = false;
  verdict_.verdict = verdict;
  verdict_.reason = std::move(reason);
}

double TrialProtocol::SmallestDetectable() const {
  const double deviate = DeviateForEvidence(-std::log(config_.keep_false_rate),
                                            config_.prior_effect_sd / estimate_.sd);
  return std::expm1((deviate + kPowerDeviate) * estimate_.sd);
}

Effect TrialProtocol::RelativeEffect() const {
  const double half = estimate_.HalfWidth95();
  return {std::expm1(estimate_.mean), std::expm1(estimate_.mean - half),
          std::expm1(estimate_.mean + half)};
}

std::string TrialProtocol::Progress() const {
  std::string text;
  if (confirming_) {
    text =
        fmt::format("pair {} of {} to {}", pairs_done_ + 1, config_.pairs_min, config_.pairs_max);
  } else {
    text = fmt::format("{} of {} screening windows", leg_measured_, config_.screen_windows);
  }
  if (verdict_.effect) text += ", effect so far " + EffectText(*verdict_.effect);
  return text;
}

}  // namespace ebb::engine
