// StreamDescriptor turns the sampled front-end stream into features of the load.
//
// Nothing it answers may follow the knobs. Rates do where clients wait for completions (a closed
// loop), so it first tells the two kinds of clients apart: how many other requests an arriving one
// meets varies like a Poisson number when arrivals keep their own pace (variance = mean), and less
// when a fixed number of clients is under way (a binomial number). The same two moments give the
// number of clients, however much of their time the store takes. The working set is estimated from
// repeats among a fixed number of requests, the curves from a fading number of blocks, and content
// from a fixed number of writes, none of them from a fixed time.
//
// Memory is bounded: 8192 requests, as many contents, 32 stream ends, 4096 requests in flight,
// 65,536 entries held back, two curves of 4096 blocks. Deterministic.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "env/observation.h"
#include "env/trace/miss_ratio_curve.h"

namespace ebb::env {

// One request of the sampled stream, as stream.get tells it.
struct StreamEntry {
  uint64_t time_ns = 0;
  char op = 'R';  // R read, W write, F flush, T trim, Z write zeroes
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t service_ns = 0;
  // Of a write whose content the node looked at: that of its first block.
  bool has_content = false;
  uint64_t fingerprint = 0;  // 53 bits; equal for equal content, 0 for zeroes
  uint16_t compressed_per_mille = 0;
};

// What is known of the whole window, sampled or not.
struct WindowTotals {
  double seconds = 0;
  uint64_t reads = 0;
  uint64_t writes = 0;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;
  double mean_in_flight = 0;
};

class StreamDescriptor {
 public:
  // Samples are whole regions of this size (storage-backend/control/stream_sampler.h).
  static constexpr uint64_t kSampledRegionBytes = uint64_t{256} * 1024;

  // The stream may be that of a node `shrunk` times smaller (a twin of a sample of the load).
  explicit StreamDescriptor(uint64_t volume_bytes, double shrunk = 1);

  // Entries that came with the present window, in any order; `sample_rate` is theirs. The newest
  // ones count with the next window: requests they met may not have come with the stream yet.
  void Add(std::span<const StreamEntry> entries, double sample_rate);
  // Ends the window.
  WorkloadDescriptor Finish(const WindowTotals& totals);
  // Forgets everything: the node restarted.
  void Reset();

 private:
  struct Held {
    StreamEntry entry;
    double sample_rate = 1;
  };

  void Count(const Held& held);
  void CountConcurrency(const StreamEntry& entry);
  void CountSequential(const StreamEntry& entry, double sample_rate);
  void CountRepeat(const StreamEntry& entry);
  void CountSize(const StreamEntry& entry);
  void CountBlocks(const StreamEntry& entry, double sample_rate);
  void CountContent(const StreamEntry& entry);
  void FillCurves(WorkloadDescriptor& descriptor) const;
  void FillContent(const WindowTotals& totals, WorkloadDescriptor& descriptor);
  void DecideLoop(const WindowTotals& totals);
  double WorkingSetBytes(const WindowTotals& totals) const;
  double Burstiness(double seconds) const;

  using Sizes = std::array<uint64_t, WorkloadDescriptor::kSizeClasses>;
  struct Content {
    uint64_t fingerprint = 0;
    uint16_t compressed_per_mille = 0;
  };

  uint64_t volume_bytes_;
  double shrunk_;

  // Kept across windows.
  std::vector<Held> held_;                   // too new to be counted
  std::vector<uint64_t> in_flight_ends_ns_;  // a heap, earliest first: sampled requests under way
  std::deque<uint64_t> stream_ends_;         // oldest first
  std::deque<uint64_t> recent_blocks_;
  std::unordered_map<uint64_t, uint32_t> block_counts_;
  MissRatioCurve reuse_;       // of all blocks
  MissRatioCurve overwrites_;  // of written ones
  std::deque<Content> contents_;
  std::unordered_map<uint64_t, uint32_t> content_counts_;
  double looked_at_share_ = 1;  // of the writes, lately
  double sample_rate_ = 1;      // of the newest entries
  bool closed_loop_ = false;
  bool loop_known_ = false;
  double clients_ = 0;         // of a closed loop
  double pace_ops_per_s_ = 0;  // of a closed loop that was plain to see

  // Of the window.
  uint64_t arrivals_ = 0;
  double met_sum_ = 0;  // how many others an arrival met
  double met_square_sum_ = 0;
  uint64_t placed_ = 0;  // requests that could be seen to be sequential or not
  uint64_t sequential_ = 0;
  std::unordered_map<uint64_t, uint32_t> slots_;  // arrivals by 10 ms slot
  Sizes read_sizes_{};
  Sizes write_sizes_{};
  uint64_t looked_at_ = 0;  // writes whose content came with them
};

}  // namespace ebb::env
