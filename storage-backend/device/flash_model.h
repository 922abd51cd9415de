// FlashModel: dies that read and program in parallel behind one link, with a write buffer.
//
//   read   cut into pages over the dies; each waits for its die, then shares the link
//   write  acknowledged from the buffer; full program units go to the dies in turn behind it; a
//          full buffer makes the writer wait for the oldest programs
//   flush  a fixed time: the buffer survives power loss
//
// See service_model.h for the figures. Not thread-safe.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "base/rng.h"
#include "storage-backend/device/service_model.h"
#include "storage-backend/device/service_parameters.h"

namespace ebb::storage {

class FlashModel final : public ServiceModel {
 public:
  FlashModel(const FlashParameters& parameters, const ServiceModelOptions& options);

  uint64_t CompletionNs(uint64_t now_ns, const ServiceRequest& request) override;

 private:
  struct Die {
    uint64_t read_free_ns = 0;
    uint64_t program_free_ns = 0;
  };
  struct Program {
    uint64_t end_ns = 0;
    bool operator>(const Program& other) const { return end_ns > other.end_ns; }
  };

  uint64_t Read(uint64_t now_ns, uint64_t offset, uint64_t bytes);
  uint64_t Write(uint64_t now_ns, uint64_t bytes);
  // One page from its die: when it is out.
  uint64_t ReadPage(uint64_t start_ns, uint64_t page);
  void StartProgram(uint64_t now_ns);
  // Books the link for a transfer that begins at `now_ns` at the earliest.
  uint64_t LinkNs(uint64_t now_ns, double link_ns);

  FlashParameters parameters_;  // times already divided by the scale
  Rng rng_;
  uint64_t latest_ns_ = 0;
  uint64_t link_free_ns_ = 0;
  std::vector<Die> dies_;
  size_t next_die_ = 0;
  uint64_t unprogrammed_bytes_ = 0;
  std::priority_queue<Program, std::vector<Program>, std::greater<>> programs_;
};

}  // namespace ebb::storage
