// ServiceModel tells when a device of a named class would be done with a request.
//
// A pure state machine: time and request in, completion time out; no clock, no I/O, no thread, and
// the same seed gives the same times. ShapedDevice sleeps by it, a simulator may step by it. The
// models and the public figures they are set to:
//
//   disk-7200  3.5-inch nearline disk, 7200 rpm. Data sheets of the class: average seek 8 to 8.5
//              ms, rotation 8.33 ms (average wait 4.16 ms), 180 to 250 MB/s on outer tracks, write
//              cache on. Seek time follows the square root of the distance (Ruemmler and Wilkes,
//              "An introduction to disk drive modeling", 1994). One head; writes go to a cache that
//              merges neighbours and empties when the head is idle, in ascending order. QD1 4 KiB
//              random read: 12.6 ms; command queueing shortens positioning by the fourth root of
//              the queue, which gives the about 170 reads and 400 cached writes a second that data
//              sheets of the class state.
//   sata-ssd   SATA TLC flash of the data-centre class: 550 MB/s link, 98,000 random read and
//              ~500 MB/s write, 4 KiB QD1 read about 100 us. Flush is cheap: its cache has
//              capacitors.
//   qlc-ssd    SATA QLC flash of the large-capacity class, its SLC cache full: 560 MB/s and 98,000
//              random reads, 4 KiB QD1 about 130 us, writes at the 160 MB/s that data sheets of the
//              class state behind the cache.
//   nvme       NVMe TLC flash of the data-centre class: 3.2 GB/s and 640,000 random reads, 2 GB/s
//              writes, 4 KiB QD1 about 80 us read and 18 to 20 us write; cache with capacitors.
//
// Flash: reads and programs share dies; a read waits for the program it meets up to the suspend
// latency and stretches it. There is no garbage collection: a drive with spare area in a short run.
//
// Seek distances are shares of the modelled device's size, so that a small file behaves like a
// whole disk and not like its outermost tracks. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage-backend/device/device.h"
#include "storage-backend/device/service_parameters.h"

namespace ebb::storage {

struct ServiceRequest {
  Io::Kind kind = Io::Kind::kRead;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct ServiceModelOptions {
  uint64_t device_bytes = 0;
  uint64_t seed = 1;
  // The modelled device is this many times faster in everything; for short tests. In [0.01, 1000].
  double scale = 1;
};

class ServiceModel {
 public:
  virtual ~ServiceModel() = default;
  // When `request`, handed to the device at `now_ns`, is done; at or after now_ns. Calls come in
  // order of now_ns; an earlier one is taken as if it came with the latest.
  virtual uint64_t CompletionNs(uint64_t now_ns, const ServiceRequest& request) = 0;
};

std::vector<std::string> ServiceModelNames();

// InvalidArgument when no such model exists (the message lists them) or an option is out of range.
absl::StatusOr<std::unique_ptr<ServiceModel>> MakeServiceModel(std::string_view name,
                                                               const ServiceModelOptions& options);
// A device of no named class.
absl::StatusOr<std::unique_ptr<ServiceModel>> MakeServiceModel(const ServiceParameters& parameters,
                                                               const ServiceModelOptions& options);

}  // namespace ebb::storage
