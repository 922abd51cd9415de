#include "env/trace/synth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "base/status.h"
#include "base/units.h"
#include "env/trace/block_sample.h"
#include "env/trace/zipf.h"
#include "fmt/format.h"

namespace ebb::env {
namespace {

using trace::kTraceBlockBytes;
using trace::TraceOp;
using trace::TraceRecord;

constexpr size_t kRecentContents = 4096;
constexpr uint64_t kPhaseMaxNs = uint64_t{1} << 58;
constexpr uint64_t kGapMaxNs = 86'400 * kNsPerS;
constexpr double kOpsPerSecondMax = 1e8;
constexpr uint64_t kStreamsMax = 1024;
constexpr uint64_t kDoesNotShrink = 15;
constexpr uint64_t kShrinksToAThird = 5;
constexpr uint64_t kThirdPerMille = 344;  // (2 * 5 + 1) / 32: see MakeContent

__extension__ using Wide = unsigned __int128;

// Spreads ranks over places, each rank to one place: hot places do not lie side by side.
class Scatter {
 public:
  explicit Scatter(uint64_t count) : count_(count) {
    factor_ = std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(count) * 0.618));
    while (std::gcd(factor_, count_) != 1) ++factor_;
  }
  uint64_t Place(uint64_t rank) const {
    const Wide wide = static_cast<Wide>(rank % count_) * factor_;
    return static_cast<uint64_t>(wide % count_);
  }

 private:
  uint64_t count_;
  uint64_t factor_;
};

double SumOfWeights(const SynthSizes& sizes) {
  double sum = 0;
  for (const auto& [bytes, weight] : sizes) sum += weight;
  return sum;
}

// What a phase needs besides its parameters.
struct PhaseState {
  explicit PhaseState(const SynthPhase& p)
      : phase(p),
        place_bytes(PlaceBytes(p)),
        places(std::max<uint64_t>(1, p.working_set_bytes / place_bytes)),
        zipf(places, p.zipf_skew),
        scatter(places),
        weights(SumOfWeights(p.sizes)),
        write_weights(SumOfWeights(p.write_sizes)) {}

  // Requests begin at multiples of the smallest size.
  static uint64_t PlaceBytes(const SynthPhase& p) {
    uint64_t bytes = p.sizes.front().first;
    for (const SynthSizes& sizes : {p.sizes, p.write_sizes}) {
      for (const auto& [size, weight] : sizes) bytes = std::min(bytes, size);
    }
    return bytes;
  }

  const SynthPhase phase;
  const uint64_t place_bytes;
  const uint64_t places;
  const Zipf zipf;
  const Scatter scatter;
  const double weights;
  const double write_weights;
};

class SynthSource final : public TraceSource {
 public:
  explicit SynthSource(const SynthOptions& options)
      : options_(options), rng_(options.seed), contents_rng_(rng_.Fork()) {
    for (const SynthPhase& phase : options.phases) {
      phases_.emplace_back(phase);
      round_ns_ += phase.duration_ns;
    }
    end_ns_ = options.duration_ns;
    if (end_ns_ == 0) end_ns_ = options.requests_max == 0 ? round_ns_ : ~uint64_t{0};
    traits_.format = "synth";
    traits_.has_content = true;
    traits_.has_compressibility = true;
    for (const SynthPhase& phase : options.phases) {
      traits_.volume_bytes =
          std::max(traits_.volume_bytes, phase.offset_bytes + phase.working_set_bytes);
    }
  }

  absl::StatusOr<bool> Next(TraceRecord* record) override {
    if (options_.requests_max > 0 && counts_.records >= options_.requests_max) return false;
    if (now_ns_ >= end_ns_) return false;
    while (now_ns_ - phase_begin_ns_ >= phases_[phase_].phase.duration_ns) EnterNextPhase();
    const PhaseState& state = phases_[phase_];
    *record = TraceRecord{.time_ns = now_ns_};
    if (state.phase.flush_every > 0 && writes_since_flush_ >= state.phase.flush_every) {
      writes_since_flush_ = 0;
      record->op = TraceOp::kFlush;
    } else {
      FillRequest(state, record);
      if (state.phase.ops_per_s > 0) {
        AdvanceByChance(state.phase);
      } else {
        AdvanceInBursts(state.phase);
      }
    }
    ++counts_.records;
    return true;
  }
  const TraceTraits& traits() const override { return traits_; }
  const TraceCounts& counts() const override { return counts_; }
  double progress() const override {
    double done = 0;
    if (end_ns_ != ~uint64_t{0}) {
      done = static_cast<double>(now_ns_) / static_cast<double>(end_ns_);
    }
    if (options_.requests_max > 0) {
      done = std::max(
          done, static_cast<double>(counts_.records) / static_cast<double>(options_.requests_max));
    }
    return std::min(done, 1.0);
  }

 private:
  void EnterNextPhase() {
    phase_begin_ns_ += phases_[phase_].phase.duration_ns;
    phase_ = (phase_ + 1) % phases_.size();
  }

  uint64_t DrawBytes(const SynthSizes& sizes, double weights) {
    double left = rng_.Uniform() * weights;
    for (const auto& [bytes, weight] : sizes) {
      left -= weight;
      if (left < 0) return bytes;
    }
    return sizes.back().first;
  }

  uint64_t DrawPlace(const PhaseState& state) {
    const double passed_s = static_cast<double>(now_ns_) / kNsPerS;
    const double moved =
        std::fmod(state.phase.drift_per_s * passed_s, 1) * static_cast<double>(state.places);
    return state.scatter.Place(state.zipf.Draw(rng_) + static_cast<uint64_t>(moved));
  }

  // Streams begin evenly spread over the working set.
  uint64_t& DrawStreamEnd(const PhaseState& state) {
    const uint64_t streams = state.phase.streams;
    while (stream_ends_.size() < streams) {
      stream_ends_.push_back(stream_ends_.size() * state.places / streams * state.place_bytes);
    }
    return stream_ends_[rng_.Below(streams)];
  }

  void FillRequest(const PhaseState& state, TraceRecord* record) {
    const SynthPhase& phase = state.phase;
    record->op = rng_.Chance(phase.read_share) ? TraceOp::kRead : TraceOp::kWrite;
    const bool own_sizes = record->op == TraceOp::kWrite && !phase.write_sizes.empty();
    record->bytes = own_sizes ? DrawBytes(phase.write_sizes, state.write_weights)
                              : DrawBytes(phase.sizes, state.weights);
    const bool random = rng_.Chance(phase.random_share);
    uint64_t& end = random || phase.streams == 0 ? last_end_ : DrawStreamEnd(state);
    uint64_t at = random ? DrawPlace(state) * state.place_bytes : end;  // within the working set
    if (at + record->bytes > phase.working_set_bytes) at = 0;
    end = at + record->bytes;
    record->offset = phase.offset_bytes + at;
    if (record->op != TraceOp::kWrite) return;
    ++writes_since_flush_;
    FillContent(phase, record);
  }

  void FillContent(const SynthPhase& phase, TraceRecord* record) {
    const uint64_t blocks = trace::BlocksTouched(record->offset, record->bytes);
    uint64_t per_mille = 0;
    for (uint64_t i = 0; i < blocks; ++i) {
      const uint64_t fingerprint = DrawContent(phase);
      record->fingerprints.push_back(fingerprint);
      per_mille += (fingerprint & 15) == kDoesNotShrink ? 1000 : kThirdPerMille;
    }
    record->compressed_per_mille = static_cast<uint16_t>(per_mille / blocks);
  }

  uint64_t DrawContent(const SynthPhase& phase) {
    if (!recent_.empty() && contents_rng_.Chance(phase.duplicate_share)) {
      return recent_[contents_rng_.Below(recent_.size())];
    }
    const uint64_t level =
        contents_rng_.Chance(phase.compressible_share) ? kShrinksToAThird : kDoesNotShrink;
    const uint64_t fingerprint =
        (MixBits(++contents_ + MixBits(options_.seed)) & ~uint64_t{15}) | level;
    if (recent_.size() < kRecentContents) {
      recent_.push_back(fingerprint);
    } else {
      recent_[contents_ % kRecentContents] = fingerprint;
    }
    return fingerprint;
  }

  // The time of the next request: an exponential later, of the time that belongs to the phase's
  // duty.
  void AdvanceByChance(const SynthPhase& phase) {
    const auto on_ns = std::max<uint64_t>(
        1, static_cast<uint64_t>(phase.duty * static_cast<double>(phase.period_ns)));
    const double mean_ns = phase.duty * 1e9 / phase.ops_per_s;
    const double drawn_ns = -std::log(1 - rng_.Uniform()) * mean_ns;
    const uint64_t passed_ns = now_ns_ - phase_begin_ns_;
    const uint64_t busy_ns =
        std::min(passed_ns % phase.period_ns, on_ns) +
        static_cast<uint64_t>(std::min(drawn_ns, static_cast<double>(phase.duration_ns)));
    const uint64_t next_ns =
        (passed_ns / phase.period_ns + busy_ns / on_ns) * phase.period_ns + busy_ns % on_ns;
    // The next phase has its own rate from its beginning on.
    now_ns_ = phase_begin_ns_ + std::min(next_ns, phase.duration_ns);
  }

  void AdvanceInBursts(const SynthPhase& phase) {
    ++in_burst_;
    if (in_burst_ >= phase.burst_requests) {
      in_burst_ = 0;
      now_ns_ += phase.gap_ns;
    } else if (in_burst_ % phase.outstanding == 0) {
      now_ns_ += phase.service_ns;
    }
  }

  const SynthOptions options_;
  Rng rng_;
  Rng contents_rng_;  // its own, so that contents do not move places
  TraceTraits traits_;
  TraceCounts counts_;
  std::vector<PhaseState> phases_;
  uint64_t round_ns_ = 0;
  uint64_t end_ns_ = 0;
  size_t phase_ = 0;
  uint64_t phase_begin_ns_ = 0;
  uint64_t now_ns_ = 0;
  uint64_t in_burst_ = 0;
  uint64_t last_end_ = 0;
  std::vector<uint64_t> stream_ends_;
  uint64_t writes_since_flush_ = 0;
  uint64_t contents_ = 0;
  std::vector<uint64_t> recent_;
};

absl::Status Impossible(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("synth: {}", what));
}

bool IsShare(double value) { return value >= 0 && value <= 1; }

absl::Status CheckSizes(const SynthSizes& sizes, uint64_t working_set_bytes) {
  for (const auto& [bytes, weight] : sizes) {
    if (bytes == 0 || bytes % 512 != 0 || bytes > trace::kTraceDataBytesMax) {
      return Impossible("block sizes are multiples of 512 up to 64 MiB");
    }
    if (!(weight >= 0) || std::isinf(weight))
      return Impossible("a block size's weight is negative");
    if (bytes > working_set_bytes) return Impossible("the working set is smaller than a block");
  }
  if (SumOfWeights(sizes) <= 0) return Impossible("no block size has a weight");
  return absl::OkStatus();
}

absl::Status CheckTimes(const SynthPhase& phase, bool bounded) {
  if (phase.burst_requests == 0 || phase.outstanding == 0) {
    return Impossible("a burst and the outstanding requests are at least 1");
  }
  if (phase.duration_ns < kNsPerMs || phase.duration_ns > kPhaseMaxNs) {
    return Impossible("a phase lasts from a millisecond to nine years");
  }
  if (std::max(phase.gap_ns, phase.service_ns) > kGapMaxNs) {
    return Impossible("a gap is longer than a day");
  }
  if (!(phase.ops_per_s >= 0 && phase.ops_per_s <= kOpsPerSecondMax)) {
    return Impossible("the rate lies between 0 and 100 million");
  }
  if (!(phase.duty > 0 && phase.duty <= 1)) return Impossible("the duty lies between 0 and 1");
  if (phase.period_ns < kNsPerMs || phase.period_ns > kGapMaxNs) {
    return Impossible("a period lasts from a millisecond to a day");
  }
  const bool moves_on = phase.ops_per_s > 0 || phase.gap_ns > 0 ||
                        (phase.service_ns > 0 && phase.burst_requests > phase.outstanding);
  if (!moves_on && !bounded) return Impossible("without gaps a number of requests is needed");
  return absl::OkStatus();
}

absl::Status CheckPhase(const SynthPhase& phase, bool bounded) {
  if (phase.sizes.empty()) return Impossible("a phase needs a block size");
  EBB_RETURN_IF_ERROR(CheckSizes(phase.sizes, phase.working_set_bytes));
  if (!phase.write_sizes.empty()) {
    EBB_RETURN_IF_ERROR(CheckSizes(phase.write_sizes, phase.working_set_bytes));
  }
  if (!IsShare(phase.read_share) || !IsShare(phase.random_share) ||
      !IsShare(phase.duplicate_share) || !IsShare(phase.compressible_share)) {
    return Impossible("shares lie between 0 and 1");
  }
  if (!(phase.zipf_skew >= 0 && phase.zipf_skew <= 10))
    return Impossible("the skew lies between 0 and 10");
  if (!(phase.drift_per_s >= 0 && phase.drift_per_s < 1e6))
    return Impossible("the drift is impossible");
  if (phase.streams > kStreamsMax) return Impossible("there are at most 1024 streams");
  if (phase.offset_bytes % 512 != 0 ||
      phase.offset_bytes + phase.working_set_bytes < phase.offset_bytes) {
    return Impossible("the working set's place is impossible");
  }
  return CheckTimes(phase, bounded);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceSource>> MakeSynthSource(const SynthOptions& options) {
  if (options.phases.empty()) return Impossible("no phase");
  for (const SynthPhase& phase : options.phases) {
    EBB_RETURN_IF_ERROR(CheckPhase(phase, options.requests_max > 0));
  }
  return std::make_unique<SynthSource>(options);
}

}  // namespace ebb::env
