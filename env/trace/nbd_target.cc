#include "env/trace/nbd_target.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include <libnbd.h>
#include <poll.h>
#include <sys/prctl.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::env {
namespace {

using trace::TraceOp;

// Lengths without data are 32 bit on the wire; whole blocks below that.
constexpr uint64_t kNoDataBytesMax = uint64_t{1} << 31;
constexpr uint64_t kDataBytesDefault = 32 * kMiB;  // what every server must accept

std::string NbdError() {
  const char* text = nbd_get_error();
  return text == nullptr ? "unknown error" : text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NbdTarget>> NbdTarget::Connect(const std::string& uri) {
  nbd_handle* handle = nbd_create();
  if (handle == nullptr) return absl::InternalError(fmt::format("libnbd: {}", NbdError()));
  std::unique_ptr<NbdTarget> target(new NbdTarget(uri, handle));
  if (nbd_connect_uri(handle, uri.c_str()) != 0) {
    const std::string text = fmt::format("cannot connect to {}: {}", uri, NbdError());
    return nbd_get_errno() == EINVAL ? absl::InvalidArgumentError(text)
                                     : absl::UnavailableError(text);
  }
  EBB_RETURN_IF_ERROR(target->ReadTraits());
  // The replayer's waits are short and many: the kernel's default slack of 50 us would show.
  prctl(PR_SET_TIMERSLACK, 1'000UL);
  return target;
}

NbdTarget::~NbdTarget() {
  // Closing frees the pending completions through Free.
  nbd_close(handle_);
}

absl::Status NbdTarget::ReadTraits() {
  const int64_t size = nbd_get_size(handle_);
  if (size < 0) {
    return absl::UnavailableError(fmt::format("{} does not tell its size: {}", uri_, NbdError()));
  }
  size_bytes_ = static_cast<uint64_t>(size);
  const int64_t data_max = nbd_get_block_size(handle_, LIBNBD_SIZE_MAXIMUM);
  data_bytes_max_ = data_max > 0 ? static_cast<uint64_t>(data_max) : kDataBytesDefault;
  data_bytes_max_ = std::min(data_bytes_max_, trace::kTraceDataBytesMax);
  writable_ = nbd_is_read_only(handle_) == 0;
  flush_ = nbd_can_flush(handle_) == 1;
  trim_ = nbd_can_trim(handle_) == 1;
  zero_ = nbd_can_zero(handle_) == 1;
  fua_ = nbd_can_fua(handle_) == 1;
  return absl::OkStatus();
}

uint64_t NbdTarget::RequestBytesMax(TraceOp op) const {
  return op == TraceOp::kRead || op == TraceOp::kWrite ? data_bytes_max_ : kNoDataBytesMax;
}

bool NbdTarget::Supports(TraceOp op) const {
  switch (op) {
    case TraceOp::kRead:
      return true;
    case TraceOp::kWrite:
      return writable_;
    case TraceOp::kFlush:
      return flush_;
    case TraceOp::kTrim:
      return writable_ && trim_;
    case TraceOp::kWriteZeroes:
      return writable_ && zero_;
  }
  EBB_CHECK(false);
  return false;
}

int NbdTarget::OnDone(void* pending, int* error) {
  const auto* done = static_cast<Pending*>(pending);
  TargetRequest* request = done->request;
  request->done_ns = RealClock().MonotonicNs();
  request->status =
      *error == 0
          ? absl::OkStatus()
          : ErrnoStatus(*error, fmt::format("{} {} bytes at {}", static_cast<char>(request->op),
                                            request->bytes, request->offset));
  done->target->done_.push_back(request);
  return 1;  // retire the command
}

void NbdTarget::Free(void* pending) { delete static_cast<Pending*>(pending); }

absl::Status NbdTarget::Submit(TargetRequest* request) {
  const nbd_completion_callback callback{
      .callback = OnDone, .user_data = new Pending{this, request}, .free = Free};
  const uint32_t flags = request->fua && fua_ ? LIBNBD_CMD_FLAG_FUA : 0;
  int64_t cookie = -1;
  switch (request->op) {
    case TraceOp::kRead:
      cookie = nbd_aio_pread(handle_, request->data, request->bytes, request->offset, callback, 0);
      break;
    case TraceOp::kWrite:
      cookie =
          nbd_aio_pwrite(handle_, request->data, request->bytes, request->offset, callback, flags);
      break;
    case TraceOp::kFlush:
      cookie = nbd_aio_flush(handle_, callback, 0);
      break;
    case TraceOp::kTrim:
      cookie = nbd_aio_trim(handle_, request->bytes, request->offset, callback, flags);
      break;
    case TraceOp::kWriteZeroes:
      cookie = nbd_aio_zero(handle_, request->bytes, request->offset, callback, flags);
      break;
  }
  if (cookie >= 0) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{}: {}", uri_, NbdError()));
}

absl::Status NbdTarget::Step(uint64_t deadline_ns) {
  if (nbd_aio_is_dead(handle_) == 1 || nbd_aio_is_closed(handle_) == 1) {
    return absl::UnavailableError(fmt::format("{}: the server closed the connection", uri_));
  }
  const auto direction = static_cast<unsigned>(nbd_aio_get_direction(handle_));
  pollfd socket{.fd = nbd_aio_get_fd(handle_), .events = 0, .revents = 0};
  if ((direction & LIBNBD_AIO_DIRECTION_READ) != 0) socket.events |= POLLIN;
  if ((direction & LIBNBD_AIO_DIRECTION_WRITE) != 0) socket.events |= POLLOUT;
  const uint64_t now_ns = RealClock().MonotonicNs();
  const uint64_t wait_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  const timespec timeout{.tv_sec = static_cast<time_t>(wait_ns / kNsPerS),
                         .tv_nsec = static_cast<int64_t>(wait_ns % kNsPerS)};
  const int ready = ppoll(&socket, 1, &timeout, nullptr);
  if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "ppoll");
  if (ready <= 0) return absl::OkStatus();
  int result = 0;
  if ((socket.revents & (POLLIN | POLLHUP | POLLERR)) != 0 &&
      (direction & LIBNBD_AIO_DIRECTION_READ) != 0) {
    result = nbd_aio_notify_read(handle_);
  } else if ((socket.revents & (POLLOUT | POLLHUP | POLLERR)) != 0) {
    result = nbd_aio_notify_write(handle_);
  }
  if (result == 0) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{}: {}", uri_, NbdError()));
}

absl::Status NbdTarget::Wait(uint64_t deadline_ns, std::vector<TargetRequest*>* done) {
  absl::Status status;
  do {
    // Completions that Submit brought along are ready without waiting.
    status = Step(done_.empty() ? deadline_ns : 0);
  } while (status.ok() && done_.empty() && RealClock().MonotonicNs() < deadline_ns);
  done->insert(done->end(), done_.begin(), done_.end());
  done_.clear();
  return status;
}

}  // namespace ebb::env
