// InFlightMeter: how many requests are in flight, and the integral of that over time.
//
// The integral over a window divided by its length is the mean concurrency of the clients. Kept as
// sum(end) - sum(begin) + now * (requests in flight), in shards so that workers rarely meet. The
// shard's lock makes its pair of numbers agree: a torn pair would be off by the time since boot.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace ebb::storage {

class InFlightMeter {
 public:
  // Begin and End of one request may come from different threads.
  void Begin(uint64_t now_ns) { Add(now_ns, 1); }
  void End(uint64_t now_ns) { Add(now_ns, -1); }

  // Integral of requests in flight over time, ns, up to `now_ns`.
  uint64_t IntegralNs(uint64_t now_ns) const;
  uint64_t in_flight() const;
  uint64_t begun() const;  // requests so far

 private:
  struct alignas(64) Shard {
    mutable std::mutex mutex;
    // Modulo 2^64: single terms wrap, their sum does not.
    uint64_t ended_minus_begun_ns = 0;
    int64_t in_flight = 0;
    uint64_t begun = 0;
  };

  void Add(uint64_t now_ns, int64_t change);

  std::array<Shard, 8> shards_;
};

}  // namespace ebb::storage
