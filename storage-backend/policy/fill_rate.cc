#include "storage-backend/policy/fill_rate.h"

#include <algorithm>

#include "base/units.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kForgetNs = 10 * kNsPerS;
constexpr uint64_t kUpdateNs = 100 * kNsPerMs;

}  // namespace

double FillRate::Update(uint64_t now_ns, uint64_t appended_blocks, uint64_t write_space_bytes) {
  if (last_ns_ == 0 || now_ns - last_ns_ > kForgetNs) {
    last_ns_ = now_ns;
    last_blocks_ = appended_blocks;
    return rate_ = 0;
  }
  if (now_ns - last_ns_ < kUpdateNs) return rate_;
  const double seconds = static_cast<double>(now_ns - last_ns_) / 1e9;
  const double share = static_cast<double>((appended_blocks - last_blocks_) * kBlockBytes) /
                       static_cast<double>(write_space_bytes);
  const double weight = std::min(1.0, seconds);
  rate_ = (1 - weight) * rate_ + weight * share / seconds;
  last_ns_ = now_ns;
  last_blocks_ = appended_blocks;
  return rate_;
}

}  // namespace ebb::storage
