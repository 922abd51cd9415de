#include "storage-backend/control/in_flight_meter.h"

#include <functional>
#include <thread>

namespace ebb::storage {

void InFlightMeter::Add(uint64_t now_ns, int64_t change) {
  thread_local const size_t mine = std::hash<std::thread::id>{}(std::this_thread::get_id());
  Shard& shard = shards_[mine % shards_.size()];
  const std::lock_guard lock(shard.mutex);
  shard.in_flight += change;
  if (change > 0) ++shard.begun;
  shard.ended_minus_begun_ns -= now_ns * static_cast<uint64_t>(change);
}

uint64_t InFlightMeter::IntegralNs(uint64_t now_ns) const {
  uint64_t sum = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    sum += shard.ended_minus_begun_ns + now_ns * static_cast<uint64_t>(shard.in_flight);
  }
  return sum;
}

uint64_t InFlightMeter::in_flight() const {
  int64_t sum = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    sum += shard.in_flight;
  }
  return static_cast<uint64_t>(sum);
}

uint64_t InFlightMeter::begun() const {
  uint64_t sum = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    sum += shard.begun;
  }
  return sum;
}

}  // namespace ebb::storage
