// DiskModel: one head over a spinning platter, a read-ahead buffer and a write-back cache.
//
//   read   buffered ahead? then as soon as the head has passed it; else seek + rotation + transfer
//   write  into the cache, merged with its neighbours; the head empties the cache whenever no read
//          keeps it busy, upwards from where it stands, 1 MiB at a time so that a read can cut in;
//          a full cache makes the writer wait for room
//   flush  waits until the cache is empty
//
// See service_model.h for the figures. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <queue>
#include <vector>

#include "base/rng.h"
#include "storage-backend/device/service_model.h"
#include "storage-backend/device/service_parameters.h"

namespace ebb::storage {

class DiskModel final : public ServiceModel {
 public:
  DiskModel(const DiskParameters& parameters, const ServiceModelOptions& options);

  uint64_t CompletionNs(uint64_t now_ns, const ServiceRequest& request) override;

 private:
  // A stretch of dirty cache: its end, and when its oldest part arrived.
  struct Dirty {
    uint64_t end = 0;
    uint64_t since_ns = 0;
  };

  uint64_t Read(uint64_t now_ns, uint64_t offset, uint64_t bytes);
  uint64_t Write(uint64_t now_ns, uint64_t offset, uint64_t bytes);
  uint64_t Flush(uint64_t now_ns);

  uint64_t TransferNs(uint64_t bytes) const;
  // Time on the link to the host, which carries one transfer at a time.
  uint64_t LinkNs(uint64_t now_ns, uint64_t bytes);
  // Seek and rotation from where the head is at `start_ns`, with `queue` requests to choose from.
  uint64_t PositionNs(uint64_t start_ns, uint64_t offset, size_t queue);
  // Moves the head: it is free again, behind the transfer, at head_free_ns_.
  void Serve(uint64_t start_ns, uint64_t offset, uint64_t bytes, size_t queue);
  void AddDirty(uint64_t now_ns, uint64_t offset, uint64_t bytes);
  bool InCache(uint64_t offset, uint64_t bytes) const;
  // Writes the next piece of cache; false when there is none or it would begin at `until_ns` or
  // later.
  bool DestageOne(uint64_t until_ns);

  const uint64_t device_bytes_;
  const double seek_min_ns_;
  const double seek_slope_ns_;
  const uint64_t cache_bytes_;
  const double bytes_per_ns_;
  const double link_bytes_per_ns_;
  const uint64_t revolution_ns_;
  const uint64_t track_bytes_;
  const uint64_t overhead_ns_;
  Rng rng_;

  uint64_t latest_ns_ = 0;
  uint64_t head_byte_ = 0;
  uint64_t head_free_ns_ = 0;
  uint64_t link_free_ns_ = 0;
  std::map<uint64_t, Dirty> dirty_;  // by first byte; disjoint, neighbours merged
  uint64_t dirty_bytes_ = 0;
  // Read-ahead: the head has passed [ahead_begin_, ahead_end_) and was at its end at ahead_ns_;
  // since then it reads on, unless it was called away (ahead_valid_ false).
  bool ahead_valid_ = false;
  uint64_t ahead_begin_ = 0;
  uint64_t ahead_end_ = 0;
  uint64_t ahead_ns_ = 0;
  // Completion times of reads given out: those still in the future are the queue.
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> reads_;
};

}  // namespace ebb::storage
