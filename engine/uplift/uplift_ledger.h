// UpliftLedger: every block of holdback since attach, and the uplift that they prove.
//
// The uplift is the mean of the blocks' own comparisons; its interval comes from how these differ
// from block to block (Student's t, wider where neighbouring blocks are alike), so neither the
// noise inside a block nor its correlation has to be known. Blocks sample the time in which another
// setting than the default ran, so the mean speaks for that time. The oldest blocks are merged in
// pairs when there are too many: means of batches, which keep the interval honest. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/tuner_service.h"
#include "engine/uplift/holdback_block.h"

namespace ebb::engine {

class UpliftLedger {
 public:
  static constexpr size_t kEntriesMax = 400;
  // An interval from fewer says nothing.
  static constexpr size_t kBlocksMin = 5;

  void Add(const UpliftBlock& block);
  // A block that could not be used, and why.
  void NoteDropped(const std::string& why);
  const std::vector<UpliftBlock>& entries() const { return entries_; }
  uint64_t dropped() const { return dropped_; }

  UpliftReport Report(const Goal& goal, int64_t now_ms, uint32_t recent_hours) const;

  std::string Save() const;
  absl::Status Load(std::string_view text);

 private:
  std::vector<UpliftBlock> entries_;  // oldest first
  uint64_t dropped_ = 0;
  std::string last_dropped_;
};

// The block as one JSON object, for the history.
std::string BlockText(const UpliftBlock& block);

}  // namespace ebb::engine
