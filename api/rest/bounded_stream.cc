#include "api/rest/bounded_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>

namespace ebb::rest {
namespace {

constexpr size_t kBufferBytes = 4'096;
constexpr int kLingerMs = 300;
constexpr size_t kLingerBytesMax = 1 << 20;

using std::chrono::milliseconds;
using std::chrono::steady_clock;

int MsUntil(steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, 60'000));
}

}  // namespace

BoundedStream::Ready BoundedStream::WaitReadable(SteadyTime deadline) {
  while (true) {
    pollfd waits[2] = {{socket_, POLLIN, 0}, {wake_, POLLIN, 0}};
    const int left_ms = MsUntil(deadline);
    const int ready = poll(waits, 2, left_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return Ready::kTimeout;
    if (waits[0].revents != 0) return Ready::kYes;
    if (waits[1].revents != 0) return Ready::kStopping;
    if (left_ms == 0) return Ready::kTimeout;
  }
}

long BoundedStream::Fill(SteadyTime deadline) {
  const Ready ready = WaitReadable(deadline);
  if (ready != Ready::kYes) {
    timed_out_ = ready == Ready::kTimeout;
    return -1;
  }
  buffer_.resize(kBufferBytes);
  next_ = 0;
  ssize_t got = 0;
  do {
    got = recv(socket_, buffer_.data(), buffer_.size(), 0);
  } while (got < 0 && errno == EINTR);
  buffer_.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return got;
}

bool BoundedStream::WaitForRequest(int idle_ms_max) {
  if (next_ == buffer_.size() && Fill(steady_clock::now() + milliseconds(idle_ms_max)) <= 0) {
    return false;
  }
  in_header_ = true;
  header_bytes_ = 0;
  timed_out_ = false;
  deadline_ = steady_clock::now() + milliseconds(limits_.request_ms_max);
  return true;
}

long BoundedStream::Read(char* out, size_t size) {
  if (next_ == buffer_.size()) {
    const long got = Fill(deadline_);
    if (got <= 0) return got;
  }
  const size_t bytes = std::min(size, buffer_.size() - next_);
  if (in_header_) {
    header_bytes_ += bytes;
    if (header_bytes_ > limits_.header_bytes_max) {
      header_too_large_ = true;
      return -1;
    }
  }
  std::memcpy(out, buffer_.data() + next_, bytes);
  next_ += bytes;
  return static_cast<long>(bytes);
}

bool BoundedStream::WriteAll(std::string_view bytes) {
  const auto deadline = steady_clock::now() + milliseconds(limits_.write_ms_max);
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return false;
    const int left_ms = MsUntil(deadline);
    pollfd wait = {socket_, POLLOUT, 0};
    if (left_ms == 0) return false;
    const int ready = poll(&wait, 1, left_ms);
    if (ready == 0 || (ready < 0 && errno != EINTR)) return false;
  }
  return true;
}

void BoundedStream::LingerAndEnd() {
  shutdown(socket_, SHUT_WR);
  const auto deadline = steady_clock::now() + milliseconds(kLingerMs);
  size_t discarded = 0;
  while (discarded < kLingerBytesMax) {
    const long got = Fill(deadline);
    if (got <= 0) break;
    discarded += static_cast<size_t>(got);
  }
}

}  // namespace ebb::rest
