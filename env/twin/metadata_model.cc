#include "env/twin/metadata_model.h"

#include <algorithm>
#include <bit>

namespace ebb::twin {
namespace {

constexpr uint64_t kPageMemoryBytes = 1'600;
constexpr uint64_t kChangeBytes = 13;  // of one block in the journal

}  // namespace

MetadataModel::MetadataModel(const MetadataCosts& costs, uint32_t page_count, double divisor)
    : costs_(costs),
      cached_pages_max_(std::max<uint64_t>(
          static_cast<uint64_t>(static_cast<double>(costs.map_cache_bytes) / divisor) /
              kPageMemoryBytes,
          16)),
      journal_bytes_max_(
          static_cast<uint64_t>(static_cast<double>(costs.journal_bytes_max) / divisor)),
      pages_(page_count),
      unit_tags_(std::bit_ceil(std::max<uint64_t>(
          static_cast<uint64_t>(static_cast<double>(costs.unit_cache_entries) / divisor), 16))) {}

void MetadataModel::Insert(uint32_t page) {
  pages_[page].cached = pages_[page].referenced = true;
  if (clock_.size() < cached_pages_max_) {
    clock_.push_back(page);
    return;
  }
  // Twice round at most: the first time may only take the marks away.
  for (size_t steps = 2 * clock_.size(); steps > 0; --steps) {
    if (++hand_ >= clock_.size()) hand_ = 0;
    Page& victim = pages_[clock_[hand_]];
    if (victim.dirty_since != 0) continue;
    if (victim.referenced) {
      victim.referenced = false;
      continue;
    }
    victim.cached = false;
    clock_[hand_] = page;
    return;
  }
  clock_.push_back(page);  // all are dirty
}

bool MetadataModel::TouchPage(uint32_t page) {
  if (pages_[page].cached) {
    pages_[page].referenced = true;
    return true;
  }
  Insert(page);
  return false;
}

bool MetadataModel::TouchUnit(uint32_t unit) {
  uint32_t& tag = unit_tags_[(unit * 0x9e3779b1U) & (unit_tags_.size() - 1)];
  const bool hit = tag == unit + 1;
  tag = unit + 1;
  return hit;
}

void MetadataModel::ChangeBlock(uint32_t page) {
  ++changes_;
  if (pages_[page].dirty_since != 0) return;
  pages_[page].dirty_since = next_commit_;
  dirty_.push_back({page, next_commit_});
}

double MetadataModel::Commit(uint64_t other_bytes) {
  const uint64_t record_bytes = changes_ * kChangeBytes;
  journal_.push_back(record_bytes);
  journal_bytes_ += record_bytes;
  ++next_commit_;
  changes_ = 0;
  while (journal_bytes_ > journal_bytes_max_ && journal_.size() > 1) {
    journal_bytes_ -= journal_.front();
    journal_.pop_front();
    ++first_commit_;
  }
  uint64_t pages = 0;
  while (!dirty_.empty() &&
         (dirty_.front().since < first_commit_ || dirty_.size() > cached_pages_max_ / 2)) {
    pages_[dirty_.front().page].dirty_since = 0;
    dirty_.pop_front();
    ++pages;
  }
  return static_cast<double>(record_bytes + other_bytes) +
         static_cast<double>(pages) * costs_.page_write_bytes;
}

}  // namespace ebb::twin
