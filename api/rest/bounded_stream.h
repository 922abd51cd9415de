// BoundedStream: a connected socket with a limit on bytes and time for each request.
//
// cpp-httplib reads request lines of any length and waits for slow clients without end; reading
// through this instead, it gets an error once the header's byte budget or the request's time is
// used up. Used by one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>
#include <vector>

namespace ebb::rest {

class BoundedStream {
 public:
  struct Limits {
    size_t header_bytes_max = 0;
    int request_ms_max = 0;
    int write_ms_max = 0;
  };
  // `wake` becomes readable when the server stops. Owns neither descriptor.
  BoundedStream(int socket, int wake, const Limits& limits)
      : socket_(socket), wake_(wake), limits_(limits) {}

  // Waits for the first byte of the next request; false: idle too long, closed, or stopping. Starts
  // the request's time and byte budget.
  bool WaitForRequest(int idle_ms_max);
  // The header has been read: what follows is the body, bounded by its Content-Length.
  void EndHeader() { in_header_ = false; }

  // As recv: bytes read, 0 at the end, -1 on errors and exceeded limits.
  long Read(char* out, size_t size);
  bool WriteAll(std::string_view bytes);
  // Lets the client read the answer before the connection goes: ends our side and discards what it
  // still sends, for a short while.
  void LingerAndEnd();

  bool header_too_large() const { return header_too_large_; }
  bool timed_out() const { return timed_out_; }
  int socket() const { return socket_; }

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  enum class Ready { kYes, kTimeout, kStopping };
  Ready WaitReadable(SteadyTime deadline);
  long Fill(SteadyTime deadline);

  const int socket_;
  const int wake_;
  const Limits limits_;
  std::vector<char> buffer_;
  size_t next_ = 0;  // first unread byte of buffer_
  bool in_header_ = true;
  size_t header_bytes_ = 0;
  bool header_too_large_ = false;
  bool timed_out_ = false;
  SteadyTime deadline_;
};

}  // namespace ebb::rest
