#include "env/twin/sampled_load.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/rng.h"
#include "storage-backend/control/stream_sampler.h"

namespace ebb::twin {
namespace {

constexpr uint64_t kRegionBytes = storage::StreamSampler::kRegionBytes;
constexpr uint64_t kPageBytes = uint64_t{kPageBlocks} * kBlockBytes;
constexpr uint64_t kUnknownContent = uint64_t{1} << 63;  // the node's fingerprints have 53 bits

constexpr uint64_t kNextBlock = 0x9e3779b97f4a7c15;  // odd: no two fingerprints come near

bool IsDataOp(const env::StreamEntry& entry) { return entry.op == 'R' || entry.op == 'W'; }

// What is written, where the node did not tell it.
class Contents {
 public:
  explicit Contents(std::span<const env::StreamEntry> entries) {
    absl::flat_hash_set<uint64_t> seen;
    for (const env::StreamEntry& entry : entries) {
      if (!entry.has_content) continue;
      per_mille_.push_back(entry.compressed_per_mille);
      if (!seen.insert(entry.fingerprint).second) repeated_.push_back(entry.fingerprint);
    }
  }

  void Fill(const env::StreamEntry& entry, trace::TraceRecord& record) {
    uint64_t first = entry.fingerprint;
    record.compressed_per_mille = entry.compressed_per_mille;
    if (!entry.has_content) {
      first = kUnknownContent | ++unknown_;
      record.compressed_per_mille = 1000;
      if (!per_mille_.empty()) {
        record.compressed_per_mille = per_mille_[rng_.Below(per_mille_.size())];
        const double repeats =
            static_cast<double>(repeated_.size()) / static_cast<double>(per_mille_.size());
        if (rng_.Chance(repeats)) first = repeated_[rng_.Below(repeated_.size())];
      }
    }
    record.fingerprints.resize(trace::BlocksTouched(record.offset, record.bytes));
    for (size_t i = 0; i < record.fingerprints.size(); ++i) {
      // A file that is copied is copied whole, and zeroes come together.
      record.fingerprints[i] = first == 0 ? 0 : first + i * kNextBlock;
    }
  }

 private:
  Rng rng_{1};
  uint64_t unknown_ = 0;
  std::vector<uint16_t> per_mille_;
  std::vector<uint64_t> repeated_;
};

// Where sampled regions lie when they are moved together.
class Places {
 public:
  Places(uint64_t volume_bytes, uint32_t shift)
      : regions_((volume_bytes + kRegionBytes - 1) / kRegionBytes), shift_(shift) {
    if (shift == 0) return;
    for (uint64_t region = 0; region < regions_; ++region) {
      if (storage::StreamSampler::InSample(region, shift)) sampled_.push_back(region);
    }
  }
  uint64_t Offset(uint64_t offset) const {
    if (shift_ == 0) return offset;
    const auto found = std::lower_bound(sampled_.begin(), sampled_.end(), offset / kRegionBytes);
    return static_cast<uint64_t>(found - sampled_.begin()) * kRegionBytes + offset % kRegionBytes;
  }
  double divisor() const {
    return shift_ == 0 ? 1 : static_cast<double>(regions_) / static_cast<double>(sampled_.size());
  }
  uint64_t volume_bytes() const {
    return (shift_ == 0 ? regions_ : sampled_.size()) * kRegionBytes;
  }
  bool none() const { return shift_ > 0 && sampled_.empty(); }

 private:
  const uint64_t regions_;
  const uint32_t shift_;
  std::vector<uint64_t> sampled_;
};

}  // namespace

void SampledLoad::Add(std::span<const env::StreamEntry> entries, double sample_rate) {
  const auto shift = static_cast<uint32_t>(std::lround(-std::log2(sample_rate)));
  shift_ = entries.empty() ? shift_ : std::max(shift_, shift);
  for (const env::StreamEntry& entry : entries) {
    entries_.push_back({entry, shift});
    first_ns_ = std::min(first_ns_, entry.time_ns);
  }
}

double SampledLoad::EstimateOps(uint64_t begin_ns, uint64_t end_ns) const {
  double ops = 0;
  for (const Held& held : entries_) {
    if (held.entry.time_ns < begin_ns || held.entry.time_ns >= end_ns) continue;
    if (IsDataOp(held.entry)) ops += static_cast<double>(uint64_t{1} << held.shift);
  }
  return ops;
}

std::vector<env::StreamEntry> SampledLoad::Choose(uint64_t begin_ns, uint64_t end_ns,
                                                  double true_share, double& requests) const {
  std::vector<env::StreamEntry> chosen;
  std::vector<uint64_t> flushes(shift_ + 1, 0);
  requests = 0;
  for (const Held& held : entries_) {
    const env::StreamEntry& entry = held.entry;
    if (entry.time_ns < begin_ns || entry.time_ns >= end_ns) continue;
    requests += static_cast<double>(uint64_t{1} << held.shift) * (held.shift > 0 ? true_share : 1);
    // Samples are nested; a flush has no place, so every so-manieth stands for the others.
    const bool kept = entry.op == 'F'
                          ? flushes[held.shift]++ % (uint64_t{1} << (shift_ - held.shift)) == 0
                          : storage::StreamSampler::InSample(entry.offset / kRegionBytes, shift_);
    if (kept) chosen.push_back(entry);
  }
  std::stable_sort(
      chosen.begin(), chosen.end(),
      [](const env::StreamEntry& a, const env::StreamEntry& b) { return a.time_ns < b.time_ns; });
  return chosen;
}

absl::StatusOr<RequestStream> SampledLoad::Build(uint64_t begin_ns, uint64_t end_ns,
                                                 double true_share) const {
  double requests = 0;
  const std::vector<env::StreamEntry> chosen = Choose(begin_ns, end_ns, true_share, requests);
  const Places places(volume_bytes_, shift_);
  if (chosen.empty() || places.none()) {
    return absl::InvalidArgumentError("the node's stream holds no requests of that time");
  }
  // The rate of the whole load, in a share of its time.
  const double shrink = shift_ == 0 ? 1 : static_cast<double>(chosen.size()) / requests;
  const uint64_t volume_bytes = (places.volume_bytes() + kPageBytes - 1) / kPageBytes * kPageBytes;
  RequestStream load(volume_bytes);
  load.SetDivisor(places.divisor(), uint32_t{1} << shift_);
  Contents contents(chosen);
  for (const env::StreamEntry& entry : chosen) {
    trace::TraceRecord record{
        .time_ns = static_cast<uint64_t>(static_cast<double>(entry.time_ns - begin_ns) * shrink),
        .op = static_cast<trace::TraceOp>(entry.op),
        .offset = places.Offset(entry.offset),
        .bytes = entry.bytes};
    if (entry.op == 'W') contents.Fill(entry, record);
    load.Add(record);
  }
  load.Close(static_cast<uint64_t>(static_cast<double>(end_ns - begin_ns) * shrink));
  return load;
}

}  // namespace ebb::twin
