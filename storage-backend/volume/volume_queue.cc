#include "storage-backend/volume/volume_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace ebb::storage {
namespace {

// Misses and flushes at once: enough to keep seven disks busy, few enough to cost nothing.
constexpr size_t kThreadsMax = 8;
constexpr size_t kTransfersMax = 128;
// While transfers and threads are both under way, one look at both takes this long at most.
constexpr uint64_t kLookNs = 50 * kNsPerUs;

}  // namespace

VolumeQueue::VolumeQueue(VolumeImpl& volume, size_t depth)
    : volume_(volume),
      depth_(depth),
      transfers_(volume.parts_.cache->MakeQueue(kTransfersMax)),
      waiting_(std::min(depth, kThreadsMax)) {
  EBB_CHECK(depth > 0);
}

VolumeQueue::~VolumeQueue() {
  std::vector<Request*> rest;
  Reap(in_flight_, rest);
}

bool VolumeQueue::WritesAtOnce(const Request& request) {
  // A write that had to wait for room could wait for segments that our own reads have pinned.
  return request.kind == Request::Kind::kWrite && !request.fua &&
         request.offset % kBlockBytes == 0 && request.bytes % kBlockBytes == 0 &&
         volume_.HasRoom(request.bytes);
}

void VolumeQueue::Submit(Request* request) {
  EBB_CHECK(in_flight_ < depth_);
  ++in_flight_;
  if (request->kind == Request::Kind::kRead) {
    SubmitRead(request);
  } else if (WritesAtOnce(*request)) {
    request->status =
        volume_.Write(request->offset, std::span(request->data, request->bytes), /*fua=*/false);
    done_.push_back(request);
  } else {
    Wait(request);
  }
}

void VolumeQueue::Wait(Request* request) {
  waiting_.Run([this, request]() -> void* {
    ExecuteBlocking(volume_, request);
    return request;
  });
}

void VolumeQueue::SubmitRead(Request* request) {
  const uint64_t blocks = request->bytes / kBlockBytes;
  const bool whole = request->offset % kBlockBytes == 0 && request->bytes % kBlockBytes == 0;
  if (!whole || blocks == 0 || blocks > VolumeImpl::kReadBlocksMax ||
      !volume_.CheckRange(request->offset, request->bytes).ok()) {
    Wait(request);
    return;
  }
  PendingRead read{.request = request,
                   .scratch = volume_.TakeScratch(),
                   .begin_ns = volume_.clock_.MonotonicNs()};
  VolumeImpl::ReadScratch& scratch = *read.scratch;
  volume_.PlanRead(request->offset / kBlockBytes, static_cast<uint32_t>(blocks), /*client=*/true,
                   scratch.plan);
  absl::Status status =
      volume_.CopyAndCut(scratch.plan, std::span(request->data, request->bytes), scratch);
  if (!status.ok() || scratch.runs.empty()) {
    FinishRead(read, std::move(status), /*execute_runs=*/false);
    done_.push_back(request);
    return;
  }
  const bool misses =
      std::any_of(scratch.runs.begin(), scratch.runs.end(), [&](const VolumeImpl::ReadRun& run) {
        return scratch.plan.blocks[run.begin].source != VolumeImpl::Source::kLog;
      });
  if (!misses) {
    StartTransfers(std::make_unique<PendingRead>(std::move(read)));
    return;
  }
  waiting_.Run([this, waits = std::make_shared<PendingRead>(std::move(read))]() -> void* {
    volume_.ReadFromCache(waits->scratch->plan, *waits->scratch);
    FinishRead(*waits, absl::OkStatus(), /*execute_runs=*/true);
    return waits->request;
  });
}

void VolumeQueue::StartTransfers(std::unique_ptr<PendingRead> read) {
  PendingRead* const pending = read.release();  // TransferDone takes it back
  VolumeImpl::ReadScratch& scratch = *pending->scratch;
  pending->transfers_left = scratch.runs.size();
  for (VolumeImpl::ReadRun& run : scratch.runs) {
    run.io = {.kind = Io::Kind::kRead,
              .offset = uint64_t{scratch.plan.blocks[run.begin].place.cache_block} * kBlockBytes,
              .data = run.data,
              .bytes = (run.end - run.begin) * kBlockBytes,
              .context = pending};
  }
  // Not over the runs themselves: the last completion gives them back while we still look.
  std::vector<Io*> ios;
  for (VolumeImpl::ReadRun& run : scratch.runs) ios.push_back(&run.io);
  for (Io* io : ios) {
    while (transfers_->in_flight() == transfers_->depth()) {
      for (const Io* done : transfers_->Reap(1)) TransferDone(*done);
    }
    transfers_->Submit(io);
  }
}

void VolumeQueue::TransferDone(const Io& io) {
  auto* const read = static_cast<PendingRead*>(io.context);
  if (--read->transfers_left > 0) return;
  const std::unique_ptr<PendingRead> owned(read);
  FinishRead(*owned, absl::OkStatus(), /*execute_runs=*/true);
  done_.push_back(owned->request);
}

void VolumeQueue::FinishRead(PendingRead& read, absl::Status status, bool execute_runs) {
  Request& request = *read.request;
  VolumeImpl::ReadScratch& scratch = *read.scratch;
  ReadSources sources;
  if (execute_runs) {
    status = volume_.FinishRuns(scratch.plan, std::span(request.data, request.bytes), scratch);
  }
  volume_.EndRead(status, scratch, &sources);
  volume_.GiveScratch(std::move(read.scratch));
  volume_.stats_.RecordRead(request.bytes, volume_.clock_.MonotonicNs() - read.begin_ns,
                            status.ok(), sources);
  request.status = std::move(status);
}

void VolumeQueue::Poll(uint64_t wait_ns) {
  const bool only_transfers = waiting_.jobs() == 0;
  if (transfers_->in_flight() > 0) {
    const bool may_wait = wait_ns > 0 && only_transfers;
    for (const Io* io : transfers_->Reap(may_wait ? 1 : 0)) TransferDone(*io);
  }
  if (only_transfers) return;
  const uint64_t look_ns = transfers_->in_flight() > 0 ? std::min(wait_ns, kLookNs) : wait_ns;
  finished_.clear();
  waiting_.Collect(done_.empty() ? look_ns : 0, finished_);
  for (void* request : finished_) done_.push_back(static_cast<Request*>(request));
}

void VolumeQueue::Reap(size_t min_completions, std::vector<Request*>& done) {
  EBB_CHECK(min_completions <= in_flight_);
  if (done_.size() < min_completions || done_.size() < in_flight_) Poll(0);
  while (done_.size() < min_completions) Poll(100 * kNsPerMs);
  in_flight_ -= done_.size();
  done.insert(done.end(), done_.begin(), done_.end());
  done_.clear();
}

}  // namespace ebb::storage
