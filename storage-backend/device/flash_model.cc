#include "storage-backend/device/flash_model.h"

#include <algorithm>

#include "base/check.h"

namespace ebb::storage {
namespace {

constexpr double kReadJitter = 0.06;

uint64_t Ns(double ns) { return static_cast<uint64_t>(ns); }

}  // namespace

FlashModel::FlashModel(const FlashParameters& parameters, const ServiceModelOptions& options)
    : parameters_(Faster(parameters, options.scale)), rng_(options.seed), dies_(parameters.dies) {}

uint64_t FlashModel::CompletionNs(uint64_t now_ns, const ServiceRequest& request) {
  now_ns = std::max(now_ns, latest_ns_);
  latest_ns_ = now_ns;
  switch (request.kind) {
    case Io::Kind::kRead:
      return Read(now_ns, request.offset, request.bytes);
    case Io::Kind::kWrite:
      return Write(now_ns, request.bytes);
    case Io::Kind::kFlush:
      return now_ns + Ns(parameters_.flush_ns);
  }
  EBB_CHECK(false);
  return now_ns;
}

uint64_t FlashModel::LinkNs(uint64_t now_ns, double link_ns) {
  link_free_ns_ = std::max(now_ns, link_free_ns_) + Ns(link_ns);
  return link_free_ns_;
}

uint64_t FlashModel::ReadPage(uint64_t start_ns, uint64_t page) {
  Die& die = dies_[page % dies_.size()];
  const double read_ns = parameters_.read_ns * std::max(0.5, 1 + kReadJitter * rng_.Normal());
  uint64_t begin_ns = std::max(start_ns, die.read_free_ns);
  if (die.program_free_ns > begin_ns) {
    begin_ns += std::min(die.program_free_ns - begin_ns, Ns(parameters_.suspend_ns));
    die.program_free_ns += Ns(read_ns);
  }
  die.read_free_ns = begin_ns + Ns(read_ns);
  return die.read_free_ns;
}

uint64_t FlashModel::Read(uint64_t now_ns, uint64_t offset, uint64_t bytes) {
  const uint64_t start_ns = now_ns + Ns(parameters_.controller_ns);
  const uint64_t end = offset + bytes;
  uint64_t completion_ns = start_ns;
  double command_ns = parameters_.command_ns;
  for (uint64_t at = offset; at < end;) {
    const uint64_t page = at / parameters_.page_bytes;
    const uint64_t length = std::min(end, (page + 1) * parameters_.page_bytes) - at;
    const double link_ns = command_ns + static_cast<double>(length) / parameters_.link_bytes_per_ns;
    // The link serves whichever page is ready, so its backlog counts from now, not from the moment
    // that this page's die is done.
    const uint64_t link_done_ns = LinkNs(now_ns, link_ns);
    completion_ns = std::max({completion_ns, ReadPage(start_ns, page) + Ns(link_ns), link_done_ns});
    command_ns = 0;
    at += length;
  }
  return completion_ns;
}

void FlashModel::StartProgram(uint64_t now_ns) {
  Die& die = dies_[next_die_];
  next_die_ = (next_die_ + 1) % dies_.size();
  const uint64_t begin_ns = std::max({now_ns, die.program_free_ns, die.read_free_ns});
  die.program_free_ns = begin_ns + Ns(parameters_.program_ns);
  programs_.push({die.program_free_ns});
}

uint64_t FlashModel::Write(uint64_t now_ns, uint64_t bytes) {
  const uint64_t link_done_ns = LinkNs(
      now_ns, parameters_.command_ns + static_cast<double>(bytes) / parameters_.link_bytes_per_ns);
  uint64_t room_ns = now_ns;
  while (!programs_.empty() && programs_.top().end_ns <= now_ns) programs_.pop();
  unprogrammed_bytes_ += bytes;
  for (; unprogrammed_bytes_ >= parameters_.program_unit_bytes;
       unprogrammed_bytes_ -= parameters_.program_unit_bytes) {
    StartProgram(now_ns);
  }
  while (programs_.size() * parameters_.program_unit_bytes > parameters_.buffer_bytes) {
    room_ns = programs_.top().end_ns;
    programs_.pop();
  }
  return std::max(link_done_ns, room_ns) + Ns(parameters_.write_ack_ns);
}

}  // namespace ebb::storage
