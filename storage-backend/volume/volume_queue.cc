#include "storage-backend/volume/volume_queue.h"

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace ebb::storage {
namespace {

constexpr size_t kTransfersMax = 128;

}  // namespace

VolumeQueue::VolumeQueue(VolumeImpl& volume, size_t depth)
    : PolledQueue(depth),
      volume_(volume),
      transfers_(volume.parts_.cache->MakeQueue(kTransfersMax)) {}

VolumeQueue::~VolumeQueue() { FinishAll(); }

void VolumeQueue::Submit(Request* request) {
  Begin();
  if (request->kind == Request::Kind::kRead) {
    SubmitRead(request);
  } else if (request->kind == Request::Kind::kWrite) {
    SubmitWrite(request);
  } else {
    Wait(volume_, request);
  }
}

void VolumeQueue::SubmitWrite(Request* request) {
  const bool whole = request->offset % kBlockBytes == 0 && request->bytes % kBlockBytes == 0;
  if (!whole || request->fua || request->bytes > VolumeImpl::kWriteBlocksMax * kBlockBytes) {
    Wait(volume_, request);
    return;
  }
  const uint64_t begin_ns = volume_.clock_.MonotonicNs();
  const uint64_t until_ns = volume_.HoldUntilNs(request->bytes);
  if (until_ns == 0 && held_.empty()) {
    WriteOrWait(request, begin_ns);
  } else {
    held_.push_back({.request = request,
                     .begin_ns = begin_ns,
                     .until_ns = std::max(until_ns, held_.empty() ? 0 : held_.back().until_ns)});
  }
}

void VolumeQueue::WriteOrWait(Request* request, uint64_t begin_ns) {
  const std::span<const std::byte> data(request->data, request->bytes);
  if (volume_.log_->HasRoomFor(request->bytes / kBlockBytes)) {
    request->status = volume_.WriteAdmitted(request->offset, data, begin_ns);
    Complete(request);
    return;
  }
  // Waiting for room here could be waiting for segments that our own reads have pinned.
  Wait([this, request, data, begin_ns]() -> void* {
    request->status = volume_.WriteAdmitted(request->offset, data, begin_ns);
    return request;
  });
}

void VolumeQueue::ReleaseHeldWrites() {
  const uint64_t now_ns = volume_.clock_.MonotonicNs();
  while (!held_.empty() && held_.front().until_ns <= now_ns) {
    const HeldWrite held = held_.front();
    held_.pop_front();
    WriteOrWait(held.request, held.begin_ns);
  }
}

void VolumeQueue::SubmitRead(Request* request) {
  const uint64_t blocks = request->bytes / kBlockBytes;
  const bool whole = request->offset % kBlockBytes == 0 && request->bytes % kBlockBytes == 0;
  if (!whole || blocks == 0 || blocks > VolumeImpl::kReadBlocksMax ||
      !volume_.CheckRange(request->offset, request->bytes).ok()) {
    Wait(volume_, request);
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
    Complete(request);
    return;
  }
  const bool misses =
      std::any_of(scratch.runs.begin(), scratch.runs.end(), [&](const VolumeImpl::ReadRun& run) {
        return scratch.plan.blocks[run.begin].source != VolumeImpl::Source::kLog;
      });
  if (!misses) {
    StartTransfers(std::move(read));
    return;
  }
  Wait([this, waits = std::make_shared<PendingRead>(std::move(read))]() -> void* {
    volume_.ReadFromCache(waits->scratch->plan, *waits->scratch);
    FinishRead(*waits, absl::OkStatus(), /*execute_runs=*/true);
    return waits->request;
  });
}

void VolumeQueue::StartTransfers(PendingRead&& read) {
  if (free_reads_.empty()) {
    reads_.push_back(std::make_unique<PendingRead>());
    free_reads_.push_back(reads_.back().get());
  }
  PendingRead* const pending = free_reads_.back();
  free_reads_.pop_back();
  *pending = std::move(read);
  VolumeImpl::ReadScratch& scratch = *pending->scratch;
  // One more than there are, so that the last completion does not end it while we still submit.
  pending->transfers_left = scratch.runs.size() + 1;
  for (VolumeImpl::ReadRun& run : scratch.runs) {
    run.io = {.kind = Io::Kind::kRead,
              .offset = uint64_t{scratch.plan.blocks[run.begin].place.cache_block} * kBlockBytes,
              .data = run.data,
              .bytes = (run.end - run.begin) * kBlockBytes,
              .context = pending};
    while (transfers_->in_flight() == transfers_->depth()) {
      for (const Io* done : transfers_->Reap(1))
        TransferDone(*static_cast<PendingRead*>(done->context));
    }
    transfers_->Submit(&run.io);
  }
  // Some devices are done already, and then what we touched is still near.
  for (const Io* io : transfers_->Reap(0)) TransferDone(*static_cast<PendingRead*>(io->context));
  TransferDone(*pending);
}

void VolumeQueue::TransferDone(PendingRead& read) {
  if (--read.transfers_left > 0) return;
  FinishRead(read, absl::OkStatus(), /*execute_runs=*/true);
  Complete(read.request);
  free_reads_.push_back(&read);
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
  if (!held_.empty()) {
    ReleaseHeldWrites();
    if (has_done()) wait_ns = 0;
  }
  if (!held_.empty() && wait_ns > 0) {
    const uint64_t now_ns = volume_.clock_.MonotonicNs();
    const uint64_t until_ns = std::max(held_.front().until_ns, now_ns);
    if (transfers_->in_flight() == 0 && waiting() == 0) {
      volume_.clock_.SleepUntilNs(until_ns);
      return;
    }
    wait_ns = std::min(wait_ns, std::max<uint64_t>(until_ns - now_ns, 1));
  }
  const bool only_transfers = waiting() == 0 && held_.empty();
  if (transfers_->in_flight() > 0) {
    const bool may_wait = wait_ns > 0 && only_transfers;
    for (const Io* io : transfers_->Reap(may_wait ? 1 : 0)) {
      TransferDone(*static_cast<PendingRead*>(io->context));
    }
  }
  if (only_transfers || has_done()) wait_ns = 0;
  const bool looks = transfers_->in_flight() > 0;
  if (looks) wait_ns = std::min(wait_ns, kLookNs);
  if (waiting() == 0) {
    if (wait_ns > 0) volume_.clock_.SleepUntilNs(volume_.clock_.MonotonicNs() + wait_ns);
    return;
  }
  CollectWaiting(wait_ns);
}

}  // namespace ebb::storage
