// StreamReader reads a node's sampled stream, from where it was left to where it ends by now.
//
// The end is asked for first: a busy node has always more to tell, and who reads until there is
// nothing left never comes back. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "env/node/node_codec.h"

namespace ebb::storage {
class JsonRpcClient;
}

namespace ebb::env {

class StreamReader {
 public:
  // Begins with the oldest request that the node remembers. `node` outlives the reader.
  explicit StreamReader(storage::JsonRpcClient& node) : node_(node) {}

  // Leaves out what the node remembers from before.
  absl::Status SkipToEnd();
  // An error of `take` ends the reading and is returned.
  absl::Status ReadToEnd(const std::function<absl::Status(const StreamSlice&)>& take);

 private:
  absl::StatusOr<StreamSlice> Ask(uint64_t after, uint64_t max);
  absl::StatusOr<uint64_t> End();

  storage::JsonRpcClient& node_;
  uint64_t next_ = 0;
};

}  // namespace ebb::env
