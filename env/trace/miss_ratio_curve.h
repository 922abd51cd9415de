// MissRatioCurve: how often an LRU cache of each size would miss, in one pass and bounded memory.
//
// SHARDS with a fixed number of samples (Waldspurger et al., FAST 2015), adjusted by the
// difference between expected and sampled references. Exact while the distinct blocks are at most
// the samples. Every access counts, and every miss brings its block in, reads and writes alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace ebb::env {

class MissRatioCurve {
 public:
  struct Point {
    uint64_t blocks = 0;  // of the cache
    double miss_ratio = 1;
  };

  explicit MissRatioCurve(size_t samples_max = 16'384);

  // An access to the block called `key`, any number that tells blocks apart. Where only a share of
  // all blocks is shown, chosen by a hash, `shown_share` says which.
  void Access(uint64_t key, double shown_share = 1);
  // Older accesses fade: all together they count for `accesses_max` at most.
  void Fade(double accesses_max);
  // The misses among all accesses with a cache of `blocks` blocks; 1 without accesses.
  double MissRatio(uint64_t blocks) const;
  // At powers of two, from `blocks_min` up to the first size that misses only what comes for the
  // first time.
  std::vector<Point> Points(uint64_t blocks_min = 256) const;

 private:
  // Distinct blocks accessed since the one at `position`.
  size_t DistinctSince(size_t position) const;
  void Mark(size_t position, int change);
  void Renumber();
  void ForgetLargestHash();
  void AddDistance(double distance_blocks, double weight);

  size_t samples_max_;
  uint64_t threshold_ = ~uint64_t{0};
  double rate_ = 1;
  double accesses_ = 0;
  double sampled_ = 0;  // accesses sampled, in units of the present rate
  absl::flat_hash_map<uint64_t, size_t> last_position_;  // by hash
  std::set<uint64_t> hashes_;                            // the sampled ones, to find the largest
  std::vector<uint32_t> tree_;  // Fenwick tree over positions: 1 where a block was accessed last
  size_t next_position_ = 0;
  std::vector<double> distances_;  // accesses by bucket of their distance
};

}  // namespace ebb::env
