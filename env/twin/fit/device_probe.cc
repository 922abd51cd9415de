#include "env/twin/fit/device_probe.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <queue>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/units.h"

namespace ebb::twin {
namespace {

using storage::Io;
using Kind = ProbeLoad::Kind;

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kBehindBytes = 256 * kKiB;  // of a write that reads run behind
constexpr size_t kBehindDepth = 4;
constexpr uint64_t kPauseNs = 400 * kNsPerMs;  // between loads: buffers empty

// Where requests go and when they are done: a device in real time, a model in simulated time.
class ProbeTarget {
 public:
  struct Done {
    size_t slot = 0;
    uint64_t at_ns = 0;
  };
  virtual ~ProbeTarget() = default;
  virtual uint64_t NowNs() = 0;
  virtual void Submit(size_t slot, Io::Kind kind, uint64_t offset, uint64_t bytes) = 0;
  virtual absl::StatusOr<Done> WaitOne() = 0;
  virtual void Pause() = 0;
};

class ModelTarget final : public ProbeTarget {
 public:
  explicit ModelTarget(storage::ServiceModel& model) : model_(model) {}
  uint64_t NowNs() override { return now_ns_; }
  void Submit(size_t slot, Io::Kind kind, uint64_t offset, uint64_t bytes) override {
    under_way_.push({model_.CompletionNs(now_ns_, {kind, offset, bytes}), slot});
  }
  absl::StatusOr<Done> WaitOne() override {
    const auto [at_ns, slot] = under_way_.top();
    under_way_.pop();
    now_ns_ = std::max(now_ns_, at_ns);
    return Done{slot, now_ns_};
  }
  void Pause() override { now_ns_ += kPauseNs; }

 private:
  storage::ServiceModel& model_;
  uint64_t now_ns_ = kNsPerMs;
  using Entry = std::pair<uint64_t, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> under_way_;
};

class DeviceTarget final : public ProbeTarget {
 public:
  static constexpr size_t kDepth = 64;
  explicit DeviceTarget(storage::Device& device)
      : queue_(device.MakeQueue(kDepth)), ios_(kDepth), buffers_(kDepth) {
    Rng rng(3);
    for (AlignedBuffer& buffer : buffers_) {
      buffer = AlignedBuffer(kMiB);
      // Nothing that a device could shrink.
      for (size_t i = 0; i + 8 <= buffer.size(); i += 8) {
        const uint64_t word = rng.Next();
        std::copy_n(reinterpret_cast<const std::byte*>(&word), 8, buffer.data() + i);
      }
    }
  }
  uint64_t NowNs() override { return RealClock().MonotonicNs(); }
  void Submit(size_t slot, Io::Kind kind, uint64_t offset, uint64_t bytes) override {
    Io& io = ios_[slot];
    io = {.kind = kind, .offset = offset, .data = buffers_[slot].data(), .bytes = bytes};
    queue_->Submit(&io);
  }
  absl::StatusOr<Done> WaitOne() override {
    if (done_.empty()) done_ = queue_->Reap(1);
    const Io* io = done_.back();
    done_.pop_back();
    EBB_RETURN_IF_ERROR(io->status);
    return Done{static_cast<size_t>(io - ios_.data()), NowNs()};
  }
  void Pause() override { RealClock().SleepUntilNs(NowNs() + kPauseNs); }

 private:
  const std::unique_ptr<storage::IoQueue> queue_;
  std::vector<Io> ios_;
  std::vector<AlignedBuffer> buffers_;
  std::vector<Io*> done_;
};

// One load in a closed loop.
class ProbeRun {
 public:
  ProbeRun(ProbeTarget& target, uint64_t device_bytes, const ProbeLoad& load, double seconds_max)
      : target_(target),
        load_(load),
        span_bytes_(std::max<uint64_t>(
            static_cast<uint64_t>(load.span_share * static_cast<double>(device_bytes)) / kBlock *
                kBlock,
            load.bytes)),
        device_bytes_(device_bytes),
        end_ns_(target.NowNs() + static_cast<uint64_t>(seconds_max * 1e9)) {}

  absl::StatusOr<ProbeAnswer> Run() {
    begin_ns_ = target_.NowNs();
    if (load_.kind == Kind::kReadBehindWrites) {
      for (size_t i = 0; i < kBehindDepth; ++i) SubmitBehind(load_.depth + i);
    }
    for (size_t i = 0; i < load_.depth && sent_ < load_.count; ++i) Send(i);
    while (under_way_ > 0) {
      EBB_ASSIGN_OR_RETURN(const ProbeTarget::Done done, target_.WaitOne());
      --under_way_;
      if (done.slot >= load_.depth) {
        if (!Finished()) SubmitBehind(done.slot);
        continue;
      }
      if (load_.kind == Kind::kFlushedWrite && !flushing_) {
        flushing_ = true;
        Submit(done.slot, Io::Kind::kFlush, 0, 0);
        continue;
      }
      flushing_ = false;
      latencies_ns_.push_back(done.at_ns - sent_ns_[done.slot]);
      done_ns_.push_back(done.at_ns);
      if (!Finished()) Send(done.slot);
    }
    return Answer();
  }

 private:
  bool Finished() { return sent_ >= load_.count || target_.NowNs() >= end_ns_; }

  void Submit(size_t slot, Io::Kind kind, uint64_t offset, uint64_t bytes) {
    ++under_way_;
    if (slot < load_.depth) sent_ns_[slot] = target_.NowNs();
    target_.Submit(slot, kind, offset, bytes);
  }
  uint64_t NextOffset(uint64_t& next, uint64_t bytes, uint64_t span) const {
    const uint64_t offset = next + bytes > span ? 0 : next;
    next = offset + bytes;
    return offset;
  }
  void Send(size_t slot) {
    ++sent_;
    const bool writes = load_.kind == Kind::kWrite || load_.kind == Kind::kFlushedWrite;
    const uint64_t places = span_bytes_ / load_.bytes;
    const uint64_t offset = load_.sequential ? NextOffset(next_offset_, load_.bytes, span_bytes_)
                                             : rng_.Below(places) * load_.bytes;
    Submit(slot, writes ? Io::Kind::kWrite : Io::Kind::kRead, offset, load_.bytes);
  }
  void SubmitBehind(size_t slot) {
    Submit(slot, Io::Kind::kWrite, NextOffset(behind_offset_, kBehindBytes, device_bytes_),
           kBehindBytes);
  }

  double RateOf(size_t from, size_t to) const {
    const uint64_t begin_ns = from == 0 ? begin_ns_ : done_ns_[from - 1];
    const double bytes = static_cast<double>((to - from) * load_.bytes);
    return bytes / std::max(1.0, static_cast<double>(done_ns_[to - 1] - begin_ns)) * 1e9;
  }
  absl::StatusOr<ProbeAnswer> Answer() {
    if (latencies_ns_.empty()) return absl::InternalError("a probe did nothing");
    ProbeAnswer answer;
    const size_t count = done_ns_.size();
    answer.bytes_per_s = RateOf(0, count);
    answer.first_bytes_per_s = RateOf(0, std::max<size_t>(count / 8, 1));
    answer.last_bytes_per_s = RateOf(count / 2, count);
    const auto middle = latencies_ns_.begin() + static_cast<ptrdiff_t>(latencies_ns_.size() / 2);
    std::nth_element(latencies_ns_.begin(), middle, latencies_ns_.end());
    answer.latency_ns = static_cast<double>(*middle);
    return answer;
  }

  ProbeTarget& target_;
  const ProbeLoad& load_;
  const uint64_t span_bytes_;
  const uint64_t device_bytes_;
  const uint64_t end_ns_;
  Rng rng_{17};
  uint64_t begin_ns_ = 0;
  size_t sent_ = 0;
  size_t under_way_ = 0;
  bool flushing_ = false;
  uint64_t next_offset_ = 0;
  uint64_t behind_offset_ = 0;
  std::array<uint64_t, DeviceTarget::kDepth> sent_ns_{};
  std::vector<uint64_t> latencies_ns_;
  std::vector<uint64_t> done_ns_;
};

absl::StatusOr<ProbeFigures> Probe(ProbeTarget& target, uint64_t device_bytes,
                                   const ProbeOptions& options) {
  std::array<ProbeAnswer, kProbes> answers{};
  const size_t count = options.writes ? kProbes : kReadProbes;
  for (size_t i = 0; i < count; ++i) {
    ProbeLoad load = ProbeLoads()[i];
    if (options.quick) load.count = std::max<size_t>(load.count / 4, 16);
    if (options.on_progress) {
      options.on_progress(static_cast<double>(i) / static_cast<double>(count), load.name);
    }
    target.Pause();
    ProbeRun run(target, device_bytes, load, options.seconds_max);
    EBB_ASSIGN_OR_RETURN(answers[i], run.Run());
  }
  if (options.on_progress) options.on_progress(1, "done");
  return FiguresOf(answers);
}

struct FigureSource {
  const char* name;
  size_t load;
  double ProbeAnswer::*value;
};
constexpr std::array<FigureSource, kProbeFigures> kFigures = {{
    {"4 KiB read", 0, &ProbeAnswer::latency_ns},
    {"4 KiB read nearby", 1, &ProbeAnswer::latency_ns},
    {"64 KiB read", 2, &ProbeAnswer::latency_ns},
    {"1 MiB read", 3, &ProbeAnswer::latency_ns},
    {"4 KiB reads, 8 at once", 4, &ProbeAnswer::bytes_per_s},
    {"4 KiB reads, 32 at once", 5, &ProbeAnswer::bytes_per_s},
    {"64 KiB reads, 16 at once", 6, &ProbeAnswer::bytes_per_s},
    {"sequential reads", 7, &ProbeAnswer::bytes_per_s},
    {"4 KiB write", 8, &ProbeAnswer::latency_ns},
    {"4 KiB writes", 8, &ProbeAnswer::bytes_per_s},
    {"flush", 9, &ProbeAnswer::latency_ns},
    {"sequential writes", 10, &ProbeAnswer::bytes_per_s},
    {"sequential writes at first", 10, &ProbeAnswer::first_bytes_per_s},
    {"sequential writes in the end", 10, &ProbeAnswer::last_bytes_per_s},
    {"4 KiB read behind writes", 11, &ProbeAnswer::latency_ns},
    {"4 KiB reads behind writes", 11, &ProbeAnswer::bytes_per_s},
}};

}  // namespace

const std::array<ProbeLoad, kProbes>& ProbeLoads() {
  static const std::array<ProbeLoad, kProbes> loads = {{
      {.name = "small reads", .count = 320},
      {.name = "small reads nearby", .count = 160, .span_share = 1.0 / 64},
      {.name = "medium reads", .bytes = 64 * kKiB, .count = 160},
      {.name = "large reads", .bytes = kMiB, .count = 64},
      {.name = "small reads, 8 at once", .depth = 8, .count = 1'600},
      {.name = "small reads, 32 at once", .depth = 32, .count = 3'200},
      {.name = "medium reads, 16 at once", .bytes = 64 * kKiB, .depth = 16, .count = 800},
      {.name = "sequential reads", .sequential = true, .bytes = kMiB, .depth = 4, .count = 256},
      {.name = "small writes", .kind = Kind::kWrite, .count = 320},
      {.name = "flushes", .kind = Kind::kFlushedWrite, .count = 64},
      {.name = "sequential writes",
       .kind = Kind::kWrite,
       .sequential = true,
       .bytes = 256 * kKiB,
       .depth = 4,
       .count = 1'024},
      {.name = "small reads behind writes", .kind = Kind::kReadBehindWrites, .count = 320},
  }};
  return loads;
}

std::string_view ProbeFigureName(size_t figure) { return kFigures[figure].name; }

bool ProbeFigureIsRate(size_t figure) { return kFigures[figure].value != &ProbeAnswer::latency_ns; }

ProbeFigures FiguresOf(const std::array<ProbeAnswer, kProbes>& answers) {
  ProbeFigures figures;
  for (size_t i = 0; i < kProbeFigures; ++i) {
    figures.value[i] = answers[kFigures[i].load].*kFigures[i].value;
  }
  return figures;
}

absl::StatusOr<ProbeFigures> ProbeDevice(storage::Device& device, const ProbeOptions& options) {
  if (device.size_bytes() < 16 * kMiB) {
    return absl::InvalidArgumentError("a device to be measured has at least 16 MiB");
  }
  DeviceTarget target(device);
  return Probe(target, device.size_bytes(), options);
}

ProbeFigures ProbeModel(storage::ServiceModel& model, uint64_t device_bytes,
                        const ProbeOptions& options) {
  ModelTarget target(model);
  ProbeOptions quiet = options;
  quiet.on_progress = {};
  // A model never fails.
  return Probe(target, device_bytes, quiet).value_or(ProbeFigures{});
}

}  // namespace ebb::twin
