#include "env/trace/replayer.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "base/units.h"
#include "env/trace/request_source.h"
#include "fmt/format.h"

namespace ebb::env {
namespace {

using trace::TraceOp;

constexpr uint64_t kStopCheckNs = 100 * kNsPerMs;
constexpr uint64_t kProgressRequests = 64;

// One request on its way, with its buffer.
struct Flight : TargetRequest {
  AlignedBuffer buffer;
  uint64_t due_ns = 0;
  uint64_t sent_ns = 0;
  bool waited_for_depth = false;
};

class Replay {
 public:
  Replay(std::unique_ptr<RequestSource> source, BlockTarget& target, const ReplayOptions& options,
         Clock& clock)
      : source_(std::move(source)),
        target_(target),
        options_(options),
        clock_(clock),
        flights_(options.depth) {
    for (Flight& flight : flights_) free_.push_back(&flight);
  }

  absl::StatusOr<ReplayReport> Run() {
    begin_ns_ = clock_.MonotonicNs();
    for (;;) {
      EBB_RETURN_IF_ERROR(PrepareNext());
      if (next_ == nullptr && free_.size() == flights_.size()) break;
      if (next_ != nullptr && clock_.MonotonicNs() >= next_->due_ns) {
        EBB_RETURN_IF_ERROR(SendNext());
      }
      EBB_RETURN_IF_ERROR(Await());
    }
    report_.passes = source_->counts().passes;
    report_.folded = source_->counts().folded;
    for (const auto& [op, count] : source_->counts().skipped) report_.kinds[op].skipped = count;
    report_.planned_span_ns = open_loop() ? last_due_ns_ - first_due_ns_ : 0;
    report_.actual_span_ns = last_sent_ns_ - first_sent_ns_;
    return std::move(report_);
  }

 private:
  bool open_loop() const { return options_.pace == ReplayOptions::Pace::kOpenLoop; }

  bool Ending() {
    if (options_.stop != nullptr && options_.stop->load()) return true;
    return options_.duration_ns > 0 && clock_.MonotonicNs() - begin_ns_ >= options_.duration_ns;
  }

  // Takes the next request out of the trace and makes its data, ahead of its time.
  absl::Status PrepareNext() {
    ended_ = ended_ || Ending();
    if (next_ != nullptr || ended_ || free_.empty()) return absl::OkStatus();
    Flight* flight = free_.back();
    uint64_t time_ns = 0;
    EBB_ASSIGN_OR_RETURN(const bool more, source_->Next(flight, &flight->buffer, &time_ns));
    ended_ = !more;
    if (ended_) return absl::OkStatus();
    free_.pop_back();
    next_ = flight;
    next_->due_ns = begin_ns_;
    if (open_loop()) {
      next_->due_ns += static_cast<uint64_t>(static_cast<double>(time_ns) / options_.speed);
    }
    next_->waited_for_depth = std::exchange(was_full_, false);
    return absl::OkStatus();
  }

  absl::Status SendNext() {
    Flight* flight = std::exchange(next_, nullptr);
    flight->sent_ns = clock_.MonotonicNs();
    EBB_RETURN_IF_ERROR(target_.Submit(flight));
    if (!begun_) {
      begun_ = true;
      first_sent_ns_ = flight->sent_ns;
      first_due_ns_ = flight->due_ns;
    }
    last_sent_ns_ = flight->sent_ns;
    last_due_ns_ = flight->due_ns;
    ++sent_;
    if (options_.on_progress && sent_ % kProgressRequests == 0) ShowProgress();
    if (open_loop()) {
      report_.drift.Record(flight->sent_ns - flight->due_ns);
      if (flight->waited_for_depth && flight->sent_ns > flight->due_ns) ++report_.depth_limited;
    }
    return absl::OkStatus();
  }

  void ShowProgress() {
    double share = -1;
    if (options_.duration_ns > 0) {
      share = static_cast<double>(last_sent_ns_ - begin_ns_) /
              static_cast<double>(options_.duration_ns);
    } else if (!options_.repeat) {
      share = source_->progress();
    }
    options_.on_progress(std::min(share, 1.0), sent_);
  }

  // Takes answers; waits for one unless there is something to send before.
  absl::Status Await() {
    uint64_t deadline_ns = clock_.MonotonicNs() + kStopCheckNs;
    if (next_ != nullptr) {
      deadline_ns = std::min(deadline_ns, next_->due_ns);
    } else if (!ended_ && !free_.empty()) {
      deadline_ns = 0;
    } else {
      was_full_ = free_.empty();
    }
    std::vector<TargetRequest*> done;
    EBB_RETURN_IF_ERROR(target_.Wait(deadline_ns, &done));
    for (TargetRequest* request : done) Account(static_cast<Flight*>(request));
    // A request whose time is still to come is given up when the replay is to end.
    if (next_ != nullptr && Ending()) free_.push_back(std::exchange(next_, nullptr));
    return absl::OkStatus();
  }

  void Account(Flight* flight) {
    ReplayReport::Kind& kind = report_.kinds[flight->op];
    ++kind.requests;
    kind.latency.Record(flight->done_ns - flight->sent_ns);
    if (flight->status.ok()) {
      kind.bytes += flight->bytes;
    } else {
      ++kind.errors;
      if (report_.first_error.empty()) report_.first_error = std::string(flight->status.message());
    }
    free_.push_back(flight);
  }

  const std::unique_ptr<RequestSource> source_;
  BlockTarget& target_;
  const ReplayOptions options_;
  Clock& clock_;
  std::vector<Flight> flights_;
  std::vector<Flight*> free_;
  Flight* next_ = nullptr;  // prepared, not yet sent
  bool was_full_ = false;   // `depth` were in flight when the next one could have been prepared
  bool ended_ = false;      // nothing more to take from the trace
  ReplayReport report_;
  uint64_t sent_ = 0;
  uint64_t begin_ns_ = 0;
  bool begun_ = false;
  uint64_t first_sent_ns_ = 0;
  uint64_t last_sent_ns_ = 0;
  uint64_t first_due_ns_ = 0;
  uint64_t last_due_ns_ = 0;
};

const char* NameOf(TraceOp op) {
  switch (op) {
    case TraceOp::kRead:
      return "read";
    case TraceOp::kWrite:
      return "write";
    case TraceOp::kFlush:
      return "flush";
    case TraceOp::kTrim:
      return "trim";
    case TraceOp::kWriteZeroes:
      return "zeroes";
  }
  return "?";
}

std::string Quantiles(const LatencyHistogram& histogram) {
  return fmt::format("p50 {}, p99 {}",
                     FormatDurationNs(static_cast<uint64_t>(histogram.QuantileNs(0.5))),
                     FormatDurationNs(static_cast<uint64_t>(histogram.QuantileNs(0.99))));
}

}  // namespace

uint64_t ReplayReport::requests() const {
  uint64_t sum = 0;
  for (const auto& [op, kind] : kinds) sum += kind.requests;
  return sum;
}

uint64_t ReplayReport::errors() const {
  uint64_t sum = 0;
  for (const auto& [op, kind] : kinds) sum += kind.errors;
  return sum;
}

double ReplayReport::SpanError() const {
  if (planned_span_ns == 0) return 0;
  return (static_cast<double>(actual_span_ns) - static_cast<double>(planned_span_ns)) /
         static_cast<double>(planned_span_ns);
}

std::string ReplayReport::ToText() const {
  std::string text = fmt::format("{} requests in {}, {} errors\n", requests(),
                                 FormatDurationNs(actual_span_ns), errors());
  for (const auto& [op, kind] : kinds) {
    text +=
        fmt::format("{:<7} {:>8}, {}, {}, {} errors, {} skipped\n", NameOf(op), kind.requests,
                    FormatBytes(kind.bytes), Quantiles(kind.latency), kind.errors, kind.skipped);
  }
  if (planned_span_ns > 0) {
    text += fmt::format("planned {}, span error {:+.3f} %; drift {}; {} held back by the depth\n",
                        FormatDurationNs(planned_span_ns), 100 * SpanError(), Quantiles(drift),
                        depth_limited);
  }
  if (folded > 0) text += fmt::format("{} requests folded into the target\n", folded);
  if (!first_error.empty()) text += fmt::format("first error: {}\n", first_error);
  return text;
}

absl::StatusOr<ReplayReport> ReplayTrace(const std::string& trace_path, BlockTarget& target,
                                         const ReplayOptions& options, Clock& clock) {
  if (options.depth == 0 || !(options.speed > 0)) {
    return absl::InvalidArgumentError("a replay needs a depth and a speed above zero");
  }
  const RequestSource::Options how = {.fold_offsets = options.fold_offsets,
                                      .repeat = options.duration_ns > 0 || options.repeat,
                                      .format = options.format,
                                      .reading = options.reading};
  EBB_ASSIGN_OR_RETURN(auto source, RequestSource::Open(trace_path, target, how));
  return Replay(std::move(source), target, options, clock).Run();
}

}  // namespace ebb::env
