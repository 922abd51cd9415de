// BlockTarget is what a trace is replayed against: an asynchronous block device seen by a client.
//
// NbdTarget is the real one; tests use a simulated one. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/trace/trace_format.h"

namespace ebb::env {

// One request. The submitter owns it and its buffer until Wait hands it back.
struct TargetRequest {
  trace::TraceOp op = trace::TraceOp::kRead;
  bool fua = false;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::byte* data = nullptr;  // reads: filled; writes: sent
  absl::Status status{};      // set before Wait hands it back
  uint64_t done_ns = 0;       // likewise: monotonic time of the answer
};

class BlockTarget {
 public:
  virtual ~BlockTarget() = default;

  virtual uint64_t size_bytes() const = 0;
  // The largest request of this kind that the target takes.
  virtual uint64_t RequestBytesMax(trace::TraceOp op) const = 0;
  // False when the target cannot do this kind at all (a read-only or trim-less export).
  virtual bool Supports(trace::TraceOp op) const = 0;
  // Sends `request`. An error means that the target is gone; a failed request is told by Wait.
  virtual absl::Status Submit(TargetRequest* request) = 0;
  // Appends the finished requests to `done`; returns once there is one or at `deadline_ns`. An
  // error means that the target is gone.
  virtual absl::Status Wait(uint64_t deadline_ns, std::vector<TargetRequest*>* done) = 0;
  virtual std::string Describe() const = 0;
};

}  // namespace ebb::env
