// ReductionChoice says whether a batch of destage is worth compressing and deduplicating when the
// log fills faster than it drains.
//
// Either may be faster: without reduction the processor has less to do, with it the devices have.
// So while destage is behind, batches of the other kind are tried now and then, and the kind that
// took more bytes out of the log a second lately goes on. Pure state machine; one thread.
#pragma once

#include <array>
#include <cstdint>

namespace ebb::storage {

class ReductionChoice {
 public:
  // Batches between two trials of the kind that was slower.
  static constexpr uint64_t kBatchesBetweenTrials = 32;

  // For the next batch. Always true unless destage is behind.
  bool Reduce(bool behind);
  // A batch while behind took `ns` for `blocks`.
  void Done(bool reduced, uint64_t blocks, uint64_t ns);

 private:
  std::array<double, 2> rate_{};  // blocks a ns by kind (1: reduced); 0: never tried
  uint64_t since_trial_ = 0;
};

}  // namespace ebb::storage
