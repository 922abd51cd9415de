// RequestSource turns a trace of any format into requests that fit a target: streamed, with their
// data.
//
// It skips what the target cannot do, cuts what is too long for one request, folds offsets into a
// smaller target when told to and starts over when told to repeat. Several devices of a trace lie
// one after the other on the target. Where the trace does not know a write's content, it is unique
// and does not shrink. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "base/trace/trace_format.h"
#include "env/trace/block_target.h"
#include "env/trace/device_layout.h"
#include "env/trace/trace_source.h"

namespace ebb::env {

class RequestSource {
 public:
  struct Options {
    bool fold_offsets = false;
    bool repeat = false;
    std::string format = {};  // of the trace; empty: recognised, see OpenTrace
    TraceOptions reading = {};
  };
  struct Counts {
    uint64_t passes = 0;  // whole ones
    uint64_t folded = 0;
    std::map<trace::TraceOp, uint64_t> skipped;
  };

  // Reads the trace once to see how large a target it needs, so it cannot come through a pipe.
  // `target` outlives the source. OutOfRange when the target is smaller than that and offsets are
  // not folded.
  static absl::StatusOr<std::unique_ptr<RequestSource>> Open(const std::string& path,
                                                             const BlockTarget& target,
                                                             const Options& options);

  // Fills `request`, with its data in `buffer` (made larger as needed), and `time_ns`, its time
  // since the begin of the trace (passes follow each other). False at the end.
  absl::StatusOr<bool> Next(TargetRequest* request, AlignedBuffer* buffer, uint64_t* time_ns);

  const Counts& counts() const { return counts_; }
  // How far the present pass is, in [0, 1].
  double progress() const { return reader_->progress(); }

 private:
  RequestSource(std::string path, const BlockTarget& target, const Options& options)
      : path_(std::move(path)), target_(target), options_(options) {}

  absl::StatusOr<std::unique_ptr<TraceSource>> OpenSource() const;
  absl::Status CheckSize();
  absl::Status BeginPass();
  // Loads the next record, or the next piece of one that is longer than a trace's own limit.
  absl::StatusOr<bool> ReadRecord();
  // Loads the next record that makes a request.
  absl::StatusOr<bool> NextRecord();
  void FoldRecord();
  void MakeUnknownContent();

  const std::string path_;
  const BlockTarget& target_;
  const Options options_;
  DeviceLayout layout_;
  uint64_t fold_bytes_ = 0;      // whole blocks; 0: offsets stay
  uint64_t unknown_blocks_ = 0;  // blocks made so far for writes of unknown content
  std::unique_ptr<TraceSource> reader_;
  uint64_t pass_begin_ns_ = 0;
  uint64_t pass_requests_ = 0;
  trace::TraceRecord long_record_;  // is handed out in pieces
  uint64_t long_done_bytes_ = 0;    // of it
  trace::TraceRecord record_;
  std::vector<std::byte> write_data_;  // of record_
  bool record_pending_ = false;        // something of record_ is still to be sent
  uint64_t piece_done_bytes_ = 0;
  Counts counts_;
};

}  // namespace ebb::env
