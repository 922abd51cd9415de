#include "env/twin/load_generator.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/rng.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::twin {
namespace {

constexpr size_t kStreams = 4;
constexpr uint64_t kSharedContents = 4096;  // blocks that duplicates are drawn from

// Ranks 0 to count - 1 with weight 1 / (rank + 1)^skew, by inverting the integral of the law.
class Zipf {
 public:
  Zipf(uint64_t count, double skew) : count_(count), skew_(skew), area_(Area(count)) {}

  uint64_t Draw(Rng& rng) const {
    if (skew_ == 0) return rng.Below(count_);
    const double at = rng.Uniform() * area_;
    const double x =
        std::abs(skew_ - 1) < 1e-9 ? std::exp(at) : std::pow(at * (1 - skew_) + 1, 1 / (1 - skew_));
    return std::min(count_ - 1, static_cast<uint64_t>(x - 1));
  }

 private:
  // The integral of x^-skew from 1 to count + 1.
  double Area(uint64_t count) const {
    const double end = static_cast<double>(count) + 1;
    if (std::abs(skew_ - 1) < 1e-9) return std::log(end);
    return (std::pow(end, 1 - skew_) - 1) / (1 - skew_);
  }

  uint64_t count_;
  double skew_;
  double area_;
};

// A permutation of [0, count): popular ranks lie anywhere.
class Scatter {
 public:
  explicit Scatter(uint64_t count) : count_(count) {
    while ((uint64_t{1} << bits_) < count) ++bits_;
  }
  uint64_t operator()(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << bits_) - 1;
    do {
      value = (value * 0x9e3779b97f4a7c15 + 0x7f4a7c15) & mask;
      value ^= value >> (bits_ / 2 + 1);
      value = (value * 0xbf58476d1ce4e5b9) & mask;
    } while (value >= count_);
    return value;
  }

 private:
  uint64_t count_;
  unsigned bits_ = 1;
};

absl::Status CheckSpec(const LoadSpec& spec, uint64_t volume_bytes) {
  const auto is_share = [](double value) { return value >= 0 && value <= 1; };
  if (!(spec.seconds > 0 && spec.ops_per_s > 0 && spec.seconds * spec.ops_per_s < 1e9)) {
    return absl::InvalidArgumentError("a load needs a rate and a time, and below 1e9 requests");
  }
  if (!is_share(spec.read_share) || !is_share(spec.sequential_share) ||
      !is_share(spec.duplicate_share) || !is_share(spec.flushes_per_write) ||
      !(spec.burst_duty > 0 && spec.burst_duty <= 1) || !(spec.burst_period_s > 0)) {
    return absl::InvalidArgumentError("a share of the load is not within 0 and 1");
  }
  if (!(spec.zipf_skew >= 0 && spec.zipf_skew <= 3)) {
    return absl::InvalidArgumentError("the Zipf skew is not within 0 and 3");
  }
  for (const uint32_t bytes : {spec.read_bytes, spec.write_bytes}) {
    if (bytes < 512 || bytes > 4 * kMiB) {
      return absl::InvalidArgumentError("requests have 512 bytes to 4 MiB");
    }
  }
  if (spec.working_set_bytes < 16 * kMiB || spec.working_set_bytes > volume_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("a working set of {} does not fit a volume of {}, or is below 16 MiB",
                    FormatBytes(spec.working_set_bytes), FormatBytes(volume_bytes)));
  }
  return absl::OkStatus();
}

class Generator {
 public:
  Generator(const LoadSpec& spec, uint64_t volume_bytes)
      : spec_(spec),
        rng_(spec.seed),
        grain_(std::max<uint64_t>({spec.read_bytes, spec.write_bytes, kBlockBytes})),
        places_(spec.working_set_bytes / grain_),
        zipf_(places_, spec.zipf_skew),
        scatter_(places_),
        stream_(volume_bytes) {
    for (uint64_t& place : stream_places_) place = rng_.Below(places_) * grain_;
  }

  RequestStream Run() {
    const double step_s = 1 / spec_.ops_per_s;
    double busy_s = 0;
    for (;;) {
      // Arrivals are exponential inside a burst.
      busy_s += -std::log(1 - rng_.Uniform()) * step_s * spec_.burst_duty;
      const double bursts = std::floor(busy_s / (spec_.burst_period_s * spec_.burst_duty));
      const double at_s = busy_s + bursts * spec_.burst_period_s * (1 - spec_.burst_duty);
      if (at_s >= spec_.seconds) break;
      AddRequest(static_cast<uint64_t>(at_s * 1e9));
    }
    stream_.Close(static_cast<uint64_t>(spec_.seconds * 1e9));
    return std::move(stream_);
  }

 private:
  uint64_t DrawOffset(uint64_t bytes) {
    if (!rng_.Chance(spec_.sequential_share)) return scatter_(zipf_.Draw(rng_)) * grain_;
    uint64_t& place = stream_places_[rng_.Below(kStreams)];
    const uint64_t offset = place;
    place = place + 2 * bytes > places_ * grain_ ? 0 : place + bytes;
    return offset;
  }

  void AddRequest(uint64_t time_ns) {
    trace::TraceRecord record{.time_ns = time_ns};
    const bool read = rng_.Chance(spec_.read_share);
    record.op = read ? trace::TraceOp::kRead : trace::TraceOp::kWrite;
    record.bytes = read ? spec_.read_bytes : spec_.write_bytes;
    record.offset = DrawOffset(record.bytes);
    if (!read) AddContent(record);
    stream_.Add(record);
    if (read || !rng_.Chance(spec_.flushes_per_write)) return;
    stream_.Add({.time_ns = time_ns, .op = trace::TraceOp::kFlush});
  }

  void AddContent(trace::TraceRecord& record) {
    // Ratios of real data spread: a normal around the mean, cut.
    const double drawn = spec_.compressed_per_mille * (1 + 0.2 * rng_.Normal());
    record.compressed_per_mille = static_cast<uint16_t>(std::clamp(drawn, 20.0, 1000.0));
    if (spec_.duplicate_share == 0) return;
    for (uint64_t i = trace::BlocksTouched(record.offset, record.bytes); i > 0; --i) {
      record.fingerprints.push_back(rng_.Chance(spec_.duplicate_share)
                                        ? rng_.Below(kSharedContents)
                                        : kSharedContents + ++unique_contents_);
    }
  }

  const LoadSpec spec_;
  Rng rng_;
  const uint64_t grain_;
  const uint64_t places_;
  const Zipf zipf_;
  const Scatter scatter_;
  RequestStream stream_;
  std::array<uint64_t, kStreams> stream_places_{};
  uint64_t unique_contents_ = 0;
};

}  // namespace

absl::StatusOr<RequestStream> GenerateLoad(const LoadSpec& spec, uint64_t volume_bytes) {
  if (absl::Status status = CheckSpec(spec, volume_bytes); !status.ok()) return status;
  return Generator(spec, volume_bytes).Run();
}

}  // namespace ebb::twin
