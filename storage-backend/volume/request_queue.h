// RequestQueue is the asynchronous face of a Volume: requests go in, completions come out, and no
// thread waits for one request.
//
// What needs no device is done inside Submit: reads from memory, writes with room in the log. Reads
// from the cache device are in flight on it. What has to wait for something else (misses, flushes,
// a full log) is done by a few threads of the queue. So a hit is never handed to another thread.
//
// One thread a queue, as with IoQueue; several queues on one volume are fine. Requests in flight
// together have no order among each other: who needs one waits for the first completion. A flush
// covers what was completed before its Submit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"

namespace ebb::storage {

// The submitter owns it, and its memory, until Reap hands it back.
struct Request {
  enum class Kind : uint8_t { kRead, kWrite, kWriteZeroes, kTrim, kFlush };
  Kind kind = Kind::kRead;
  bool fua = false;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::byte* data = nullptr;  // `bytes` of them, for reads and writes
  void* context = nullptr;    // the submitter's own
  absl::Status status{};      // set before Reap returns it
};

class RequestQueue {
 public:
  virtual ~RequestQueue() = default;  // waits for what is in flight
  // Starts `request`; it may complete at once, but is handed back only by Reap. At most depth() in
  // flight.
  virtual void Submit(Request* request) = 0;
  // Finished requests in completion order, appended to `done`; waits until at least
  // `min_completions` of those in flight are.
  virtual void Reap(size_t min_completions, std::vector<Request*>& done) = 0;
  virtual size_t in_flight() const = 0;
  virtual size_t depth() const = 0;
};

class Volume;
// Does each request inside Submit with the volume's blocking verbs.
std::unique_ptr<RequestQueue> MakeBlockingQueue(Volume& volume, size_t depth);
// Carries out `request` with the volume's blocking verbs and sets its status.
void ExecuteBlocking(Volume& volume, Request* request);

}  // namespace ebb::storage
