#include "storage-backend/capacity/range_reader.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/units.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kGrain = 4096;
// Reading over a gap costs its bytes; another transfer costs a seek or a queue slot.
constexpr uint64_t kGapBytesMax = 16 * kKiB;
constexpr uint64_t kTransferBytesMax = kMiB;

using Visit =
    std::function<absl::Status(const ReadRange&, absl::StatusOr<std::span<const std::byte>>)>;

uint64_t StartOf(const ReadRange& range) { return range.offset / kGrain * kGrain; }
uint64_t EndOf(const ReadRange& range) {
  return (range.offset + range.bytes + kGrain - 1) / kGrain * kGrain;
}

// One buffer a thread, grown to what was needed and kept: page faults cost more than the read.
std::span<std::byte> ThreadBuffer(uint64_t bytes) {
  static thread_local AlignedBuffer buffer;
  if (buffer.size() < bytes) buffer = AlignedBuffer(bytes);
  return buffer.span().first(bytes);
}

// Where the whole run may go without a copy: its ranges adjoin on the device and in memory.
std::byte* CommonTarget(std::span<const ReadRange> run) {
  std::byte* const target = run.front().target;
  if (target == nullptr || reinterpret_cast<uintptr_t>(target) % kGrain != 0) return nullptr;
  uint64_t offset = run.front().offset;
  std::byte* next = target;
  for (const ReadRange& range : run) {
    if (range.offset != offset || range.target != next || range.offset % kGrain != 0 ||
        range.bytes % kGrain != 0) {
      return nullptr;
    }
    offset += range.bytes;
    next += range.bytes;
  }
  return target;
}

absl::Status ReadRun(Device& device, std::span<const ReadRange> run, const Visit& visit) {
  const uint64_t start = StartOf(run.front());
  uint64_t end = 0;
  for (const ReadRange& range : run) end = std::max(end, EndOf(range));
  std::byte* const target = CommonTarget(run);
  const std::span<std::byte> bytes =
      target != nullptr ? std::span(target, end - start) : ThreadBuffer(end - start);
  const absl::Status status = device.Read(start, bytes);
  if (!status.ok() && run.size() > 1) {
    for (size_t i = 0; i < run.size(); ++i) {
      if (absl::Status one = ReadRun(device, run.subspan(i, 1), visit); !one.ok()) return one;
    }
    return absl::OkStatus();
  }
  for (const ReadRange& range : run) {
    absl::StatusOr<std::span<const std::byte>> result = std::span<const std::byte>();
    if (status.ok()) {
      result = std::span<const std::byte>(bytes).subspan(range.offset - start, range.bytes);
    } else {
      result = status;
    }
    if (absl::Status visited = visit(range, std::move(result)); !visited.ok()) return visited;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadRanges(std::span<Device* const> devices, std::vector<ReadRange>& ranges,
                        const Visit& visit) {
  std::sort(ranges.begin(), ranges.end(), [](const ReadRange& a, const ReadRange& b) {
    return std::tie(a.device, a.offset, a.tag) < std::tie(b.device, b.offset, b.tag);
  });
  for (size_t first = 0; first < ranges.size();) {
    const uint64_t start = StartOf(ranges[first]);
    uint64_t end = EndOf(ranges[first]);
    size_t next = first + 1;
    while (next < ranges.size() && ranges[next].device == ranges[first].device &&
           StartOf(ranges[next]) <= end + kGapBytesMax &&
           EndOf(ranges[next]) - start <= kTransferBytesMax) {
      end = std::max(end, EndOf(ranges[next]));
      ++next;
    }
    EBB_CHECK(ranges[first].device < devices.size());
    absl::Status status = ReadRun(*devices[ranges[first].device],
                                  std::span(ranges).subspan(first, next - first), visit);
    if (!status.ok()) return status;
    first = next;
  }
  return absl::OkStatus();
}

}  // namespace ebb::storage
