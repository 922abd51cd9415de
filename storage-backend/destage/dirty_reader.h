// DirtyReader reads dirty blocks of the log from the cache device, the next batch ahead.
//
// While the capacity devices write one batch, the cache device reads the next. A block that cannot
// be read costs itself only: the others of its transfer are read one by one. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/aligned_buffer.h"
#include "storage-backend/device/device.h"
#include "storage-backend/log/log_map.h"

namespace ebb::storage {

class DirtyReader {
 public:
  struct Block {
    LogMap::DirtyBlock dirty;
    std::byte* data = nullptr;  // not verified
  };
  struct Result {
    std::vector<Block> blocks;                   // in the order asked for
    std::vector<LogMap::DirtyBlock> unreadable;  // and why the last of them is
    absl::Status status;
  };

  explicit DirtyReader(Device& cache);
  ~DirtyReader();  // waits for what is in flight

  // Allocates and touches what reads of so many bytes need, ahead of the first.
  void Reserve(size_t bytes);
  // Reads `wanted`, in ascending order of cache blocks. The data stays until the next Read.
  Result Read(const std::vector<LogMap::DirtyBlock>& wanted);
  // The next Read will probably want `blocks` (in the same order): to be read ahead by Advance.
  void Prefetch(std::vector<LogMap::DirtyBlock> blocks);
  // Starts a few transfers of what is to be read ahead. Called while the capacity devices are busy,
  // a little at a time, so that they are kept busy.
  void Advance();

 private:
  // Neighbours in the log, read together.
  struct Run {
    size_t first = 0;  // position in the part
    size_t count = 0;
    Io io;
  };
  // Blocks that are read together; block i goes to i * 4096 of the buffer.
  struct Part {
    std::vector<LogMap::DirtyBlock> blocks;
    std::vector<Run> runs;
    size_t started = 0;     // runs
    AlignedBuffer buffer;   // grows with the batch, never shrinks: a first touch is dear
    std::vector<bool> bad;  // by block, once all is read
  };

  void Prepare(Part& part, std::vector<LogMap::DirtyBlock> blocks);
  void Start(Part& part, size_t runs_max);  // as far as the queue takes them
  void Finish(Part& part);                  // all of them

  Device& cache_;
  std::unique_ptr<IoQueue> queue_;
  std::array<Part, 2> ahead_;  // in turn
  size_t now_ = 0;             // the one of ahead_ that was read ahead last
  Part rest_;                  // what was not
  absl::Status failure_;
};

}  // namespace ebb::storage
