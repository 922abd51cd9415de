// Plays random requests through a queue, many in flight, and checks every read against a model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/rng.h"
#include "storage-backend/volume/request_queue.h"
#include "storage-backend/volume/volume.h"

namespace ebb::storage {

class QueuePlayer {
 public:
  // Requests of 1 to 40 blocks to the first `block_count` blocks of the volume.
  QueuePlayer(Volume& volume, uint64_t block_count, uint64_t seed);

  void Play(int requests);
  // Reads every block with the blocking verb.
  void VerifyAll(Volume& volume) const;

 private:
  // A request with its memory, and what a read must find.
  struct Job {
    Request request;
    AlignedBuffer memory;
    uint64_t block = 0;
    uint64_t count = 0;
    std::vector<uint64_t> expected;
  };

  // False when the blocks it fell upon are busy: requests in flight have no order.
  bool SubmitOne();
  void Fill(Job& job);
  void Reap(size_t min_completions);

  const uint64_t block_count_;
  Rng rng_;
  std::unique_ptr<RequestQueue> queue_;
  std::vector<uint64_t> versions_;
  uint64_t version_ = 0;
  std::set<uint64_t> busy_;
  std::map<Job*, std::unique_ptr<Job>> jobs_;
};

}  // namespace ebb::storage
