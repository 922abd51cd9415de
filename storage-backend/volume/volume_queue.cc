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
  HeldWrite write{.request = request, .begin_ns = volume_.clock_.MonotonicNs()};
  if (absl::Status status = volume_.CheckRange(request->offset, request->bytes); !status.ok()) {
    CompleteWrite(write, std::move(status));
    return;
  }
  write.until_ns = volume_.HoldUntilNs(request->bytes);
  if (write.until_ns == 0 && held_.empty() && TryWrite(write)) return;
  if (!held_.empty()) write.until_ns = std::max(write.until_ns, held_.back().until_ns);
  held_.push_back(write);
}

bool VolumeQueue::TryWrite(HeldWrite& write) {
  const Request& request = *write.request;
  while (write.written_bytes < request.bytes) {
    uint64_t sequence = 0;
    const absl::StatusOr<uint32_t> taken =
        volume_.AppendSome((request.offset + write.written_bytes) / kBlockBytes,
                           std::span(request.data, request.bytes).subspan(write.written_bytes),
                           write.begin_ns, &sequence);
    if (!taken.ok()) {
      CompleteWrite(write, taken.status());
      return true;
    }
    if (*taken == 0) return false;
    write.written_bytes += uint64_t{*taken} * kBlockBytes;
  }
  CompleteWrite(write, absl::OkStatus());
  return true;
}

void VolumeQueue::CompleteWrite(const HeldWrite& write, absl::Status status) {
  Request* const request = write.request;
  request->status = volume_.Finish(Op::kWrite, request->bytes, write.begin_ns, std::move(status));
  Complete(request);
}

void VolumeQueue::ReleaseHeldWrites() {
  if (held_.empty()) return;
  const uint64_t now_ns = volume_.clock_.MonotonicNs();
  while (!held_.empty() && held_.front().until_ns <= now_ns && TryWrite(held_.front())) {
    held_.pop_front();
  }
}

void VolumeQueue::WaitForHeldWrite(uint64_t wait_ns) {
  const HeldWrite& write = held_.front();
  const uint64_t now_ns = volume_.clock_.MonotonicNs();
  if (write.until_ns > now_ns) {
    volume_.clock_.SleepUntilNs(std::min(write.until_ns, now_ns + wait_ns));
    return;
  }
  absl::Status status = volume_.MakeRoom(write.begin_ns);
  if (status.ok()) return;
  CompleteWrite(write, std::move(status));
  held_.pop_front();
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
  ReleaseHeldWrites();
  const auto take_transfers = [&](size_t min_completions) {
    for (const Io* io : transfers_->Reap(min_completions)) {
      TransferDone(*static_cast<PendingRead*>(io->context));
    }
  };
  if (transfers_->in_flight() > 0) take_transfers(0);
  if (has_done() || wait_ns == 0) {
    if (waiting() > 0) CollectWaiting(0);
    return;
  }
  // With one place where something can happen we wait there, else we look at them in turn.
  const bool transfers = transfers_->in_flight() > 0;
  const bool waits = waiting() > 0;
  const bool holds = !held_.empty();
  if (transfers + waits + holds > 1) wait_ns = std::min(wait_ns, kLookNs);
  if (waits) {
    CollectWaiting(wait_ns);
  } else if (transfers && holds) {
    volume_.clock_.SleepUntilNs(volume_.clock_.MonotonicNs() + wait_ns);
  } else if (transfers) {
    take_transfers(1);
  } else if (holds) {
    WaitForHeldWrite(wait_ns);
  }
}

}  // namespace ebb::storage
