// TraceRecorder turns the requests of a block front end into a trace file.
//
// A request costs its caller about 6 us for each 4 KiB written (fingerprints and an LZ4 trial, on
// the caller's thread) and a short lock; sometimes a chunk is compressed and written under that
// lock. A full disk or other failure stops the recording, never a request: see status. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/trace/trace_format.h"
#include "base/trace/trace_writer.h"

namespace ebb::trace {

class TraceRecorder {
 public:
  // `clock` outlives the recorder. Time zero of the trace is its first request.
  static absl::StatusOr<std::unique_ptr<TraceRecorder>> Create(const std::string& path,
                                                               uint64_t volume_bytes,
                                                               const std::string& note,
                                                               Clock& clock = RealClock());
  // Closes the file; use Close to see errors.
  ~TraceRecorder();

  // Call before the request is carried out. `data` is used for writes only and not kept.
  void Record(TraceOp op, bool fua, uint64_t offset, uint64_t bytes,
              std::span<const std::byte> data = {});
  // Finishes the file; later requests are not recorded. OK again when called again.
  absl::Status Close();
  // OK while recording works; otherwise why it stopped.
  absl::Status status() const;
  uint64_t record_count() const;

 private:
  TraceRecorder(std::unique_ptr<TraceWriter> writer, Clock& clock)
      : clock_(clock), writer_(std::move(writer)) {}

  Clock& clock_;
  mutable std::mutex mutex_;
  std::unique_ptr<TraceWriter> writer_;
  absl::Status status_;
  bool closed_ = false;
  bool begun_ = false;
  uint64_t begin_ns_ = 0;
  uint64_t last_ns_ = 0;
};

}  // namespace ebb::trace
