// RequestStream: a load compiled once for any number of simulations of it.
//
// The blocks it touches are numbered densely, a page of 128 at a time in the order of first touch,
// so that a simulation keeps what it knows of a block in flat arrays however large the volume is.
// A request that leaves a page is cut into records; all but the last are marked kContinues.
//
// Sample makes the load of a node a `divisor`-th the size: every divisor-th page, with the pages
// drawn from strata of equal traffic, at the same request rate for a divisor-th of the time.
// Devices then see what they saw before, and everything that fills up (log, caches, capacity) does
// so in a divisor-th of the time: a simulation hands its policies times that much longer (ADR
// 0008). Read-only once built; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/trace/trace_format.h"

namespace ebb::twin {

inline constexpr uint32_t kPageShift = 7;
inline constexpr uint32_t kPageBlocks = 1 << kPageShift;
inline constexpr uint32_t kBlockBytes = 4096;

enum class RequestKind : uint8_t { kRead, kWrite, kFlush, kTrim };

struct Request {
  enum Flag : uint8_t { kContinues = 1, kFua = 2, kPartialFirst = 4, kPartialLast = 8 };

  uint64_t time_ns = 0;
  uint32_t first_block = 0;  // dense
  uint32_t bytes = 0;        // of the whole request, in its first record; else 0
  uint32_t content = 0;      // position in contents() of the first block; kUnique: all new
  uint16_t blocks = 0;
  uint16_t compressed_per_mille = 1000;
  RequestKind kind = RequestKind::kRead;
  uint8_t flags = 0;

  static constexpr uint32_t kUnique = UINT32_MAX;
};
static_assert(sizeof(Request) == 32);

class RequestStream {
 public:
  explicit RequestStream(uint64_t volume_bytes) : volume_bytes_(volume_bytes) {}

  // In order of time. What lies beyond the volume is wrapped into it.
  void Add(const trace::TraceRecord& record);
  // What is added is itself a sample of a larger load: see divisor(). Before Close.
  void SetDivisor(double divisor, uint32_t time_divisor);
  // The record behind the last piece of the request that begins at `record`.
  uint32_t EndOf(uint32_t record) const {
    while ((requests_[record].flags & Request::kContinues) != 0) ++record;
    return record + 1;
  }
  // The stream repeats after this; at least the time of the last request.
  void Close(uint64_t duration_ns);

  // See above. A divisor of 1 is a copy. Deterministic by seed.
  RequestStream Sample(uint32_t divisor, uint64_t seed) const;

  std::span<const Request> requests() const { return requests_; }
  // Content numbers of written blocks, from 1 on; 0 is content that nobody else has. The top bit
  // (kSeenOutside): a block that was not sampled had it before.
  std::span<const uint32_t> contents() const { return contents_; }
  static constexpr uint32_t kSeenOutside = uint32_t{1} << 31;
  uint32_t content_count() const { return content_count_; }
  uint32_t block_count() const { return static_cast<uint32_t>(page_places_.size()) << kPageShift; }
  uint32_t page_count() const { return static_cast<uint32_t>(page_places_.size()); }
  // Where dense page `page` is in the volume, in pages.
  uint32_t PlaceOfPage(uint32_t page) const { return page_places_[page]; }
  // The dense page that follows it in the volume; kNoPage when the load never touches that.
  uint32_t NextPage(uint32_t page) const { return next_pages_[page]; }
  static constexpr uint32_t kNoPage = UINT32_MAX;
  // The block of the volume.
  uint64_t PlaceOf(uint32_t block) const {
    return (uint64_t{page_places_[block >> kPageShift]} << kPageShift) + block % kPageBlocks;
  }
  uint64_t volume_bytes() const { return volume_bytes_; }
  uint64_t duration_ns() const { return duration_ns_; }
  // Requests proper: records that begin one.
  uint64_t request_count() const { return request_count_; }
  // Blocks of 4 KiB that its requests touch.
  uint64_t block_operations() const { return block_operations_; }
  // Of space, and of time: nearly the same; 1 for the load itself.
  double divisor() const { return divisor_; }
  uint32_t time_divisor() const { return time_divisor_; }

 private:
  uint32_t DensePage(uint64_t place);
  void AddPieces(const trace::TraceRecord& record, RequestKind kind);
  uint32_t AddContents(const trace::TraceRecord& record);
  std::vector<uint32_t> ChoosePages(uint32_t divisor, uint64_t seed) const;
  void CopySampled(const RequestStream& from, std::span<const uint32_t> new_pages,
                   uint32_t divisor);
  void CopyContents(const RequestStream& from);
  void LinkPages();

  uint64_t volume_bytes_;
  uint64_t duration_ns_ = 0;
  uint64_t request_count_ = 0;
  uint64_t block_operations_ = 0;
  double divisor_ = 1;
  uint32_t time_divisor_ = 1;
  std::vector<Request> requests_;
  std::vector<uint32_t> contents_;
  uint32_t content_count_ = 0;
  std::vector<uint32_t> page_places_;
  std::vector<uint32_t> next_pages_;
  // While it is built.
  absl::flat_hash_map<uint32_t, uint32_t> dense_pages_;
  absl::flat_hash_map<uint64_t, uint32_t> content_numbers_;
};

}  // namespace ebb::twin
