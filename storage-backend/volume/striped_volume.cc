#include "storage-backend/volume/striped_volume.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/volume/striped_queue.h"

namespace ebb::storage {
namespace {

constexpr uint64_t VolumeMetrics::*kSummed[] = {
    &VolumeMetrics::read_blocks_dram,     &VolumeMetrics::read_blocks_cache,
    &VolumeMetrics::read_blocks_capacity, &VolumeMetrics::read_blocks_unmapped,
    &VolumeMetrics::readahead_blocks,     &VolumeMetrics::cache_data_bytes,
    &VolumeMetrics::cache_copied_bytes,   &VolumeMetrics::cache_written_bytes,
    &VolumeMetrics::cache_space_bytes,    &VolumeMetrics::dirty_bytes,
    &VolumeMetrics::clean_bytes,          &VolumeMetrics::free_bytes,
    &VolumeMetrics::cache_memory_bytes,   &VolumeMetrics::throttle_ns,
    &VolumeMetrics::throttled_writes,     &VolumeMetrics::destage_batches,
    &VolumeMetrics::destaged_blocks,      &VolumeMetrics::coalesced_blocks,
    &VolumeMetrics::deduplicated_blocks,  &VolumeMetrics::destage_raw_bytes,
    &VolumeMetrics::destage_stored_bytes, &VolumeMetrics::capacity_written_bytes,
    &VolumeMetrics::logical_bytes,        &VolumeMetrics::unique_bytes,
    &VolumeMetrics::physical_bytes,       &VolumeMetrics::read_cache_used_bytes,
    &VolumeMetrics::device_errors,        &VolumeMetrics::checksum_errors,
    &VolumeMetrics::lost_blocks,          &VolumeMetrics::scrub_scanned_bytes,
    &VolumeMetrics::scrub_damaged_blocks, &VolumeMetrics::scrub_passes,
    &VolumeMetrics::unreduced_blocks,     &VolumeMetrics::unreadable_blocks,
};

constexpr OpCounters VolumeMetrics::*kOps[] = {&VolumeMetrics::read, &VolumeMetrics::write,
                                               &VolumeMetrics::flush, &VolumeMetrics::trim};

}  // namespace

void AddMetrics(VolumeMetrics& total, const VolumeMetrics& part) {
  const auto space = static_cast<double>(total.cache_space_bytes);
  const auto more = static_cast<double>(part.cache_space_bytes);
  if (space + more > 0) {
    total.dirty_share = (total.dirty_share * space + part.dirty_share * more) / (space + more);
    total.scrub_share = (total.scrub_share * space + part.scrub_share * more) / (space + more);
  }
  for (const auto field : kSummed) total.*field += part.*field;
  for (const auto op : kOps) {
    (total.*op).ops += (part.*op).ops;
    (total.*op).bytes += (part.*op).bytes;
    (total.*op).errors += (part.*op).errors;
    (total.*op).latency.Merge((part.*op).latency);
  }
  total.devices.insert(total.devices.end(), part.devices.begin(), part.devices.end());
  total.draining = total.draining || part.draining;
  total.destage_stuck = total.destage_stuck || part.destage_stuck;
}

absl::StatusOr<std::unique_ptr<Volume>> StripedVolume::Open(
    const VolumeConfig& config, std::vector<VolumeParts> groups, Clock& clock,
    const std::function<void(double)>& progress) {
  if (groups.size() < 2 || groups.size() > kDiskGroupsMax) {
    return absl::InvalidArgumentError(
        fmt::format("a node has 1 to {} disk groups, not {}", kDiskGroupsMax, groups.size()));
  }
  const GroupPlace whole{.index = 0, .count = static_cast<uint32_t>(groups.size())};
  std::vector<GroupSet::Member> members;
  for (VolumeParts& group : groups) {
    std::vector<Device*> capacity;
    for (const auto& device : group.capacity) capacity.push_back(device.get());
    GroupPlace place = whole;
    place.index = static_cast<uint32_t>(members.size());
    members.push_back({.devices = NodeDevices(group.cache.get(), capacity, group.metadata.get(),
                                              group.make_uuid, place),
                       .metadata = group.metadata.get()});
  }
  GroupSet set(std::move(members));
  auto volume = std::unique_ptr<StripedVolume>(new StripedVolume(config, clock, groups.size()));
  EBB_ASSIGN_OR_RETURN(
      volume->volume_bytes_,
      config.may_format
          ? set.CheckOrFormat(config.volume_bytes, config.segment_bytes, groups[0].make_uuid)
          : set.Check(config.volume_bytes));
  EBB_RETURN_IF_ERROR(volume->OpenGroups(std::move(groups), progress));
  EBB_RETURN_IF_ERROR(Annotate(set.RecordServing(), "disk groups"));
  return std::unique_ptr<Volume>(std::move(volume));
}

absl::Status StripedVolume::OpenGroups(std::vector<VolumeParts> parts,
                                       const std::function<void(double)>& progress) {
  setting_ = config_.setting;
  groups_.resize(parts.size());
  std::mutex progress_mutex;
  std::vector<double> shares(parts.size(), 0);
  return AllGroups([&](uint32_t g) {
    VolumeConfig config = config_;
    config.volume_bytes = layout_.BytesBefore(g, volume_bytes_);
    config.group = {.index = g, .count = layout_.group_count};
    config.setting = ShareOf(config_.setting, g);
    const auto tell = [&, g](double share) {
      const std::lock_guard lock(progress_mutex);
      shares[g] = share;
      double sum = 0;
      for (const double one : shares) sum += one;
      progress(sum / static_cast<double>(shares.size()));
    };
    auto opened = VolumeImpl::Open(config, std::move(parts[g]), clock_,
                                   progress ? std::function<void(double)>(tell) : nullptr);
    if (!opened.ok()) return Annotate(opened.status(), fmt::format("group {}", g + 1));
    groups_[g] = *std::move(opened);
    return absl::OkStatus();
  });
}

absl::Status StripedVolume::AllGroups(const std::function<absl::Status(uint32_t)>& work) const {
  std::vector<absl::Status> results(layout_.group_count);
  if (config_.background_threads) {
    std::vector<std::thread> threads;
    for (uint32_t g = 0; g < layout_.group_count; ++g) {
      threads.emplace_back([&, g] { results[g] = work(g); });
    }
    for (std::thread& thread : threads) thread.join();
  } else {
    for (uint32_t g = 0; g < layout_.group_count; ++g) results[g] = work(g);
  }
  for (absl::Status& result : results) EBB_RETURN_IF_ERROR(std::move(result));
  return absl::OkStatus();
}

Setting StripedVolume::ShareOf(const Setting& setting, uint32_t group) const {
  Setting share = setting;
  const int64_t groups = layout_.group_count;
  // Whole steps of the read cache, the odd ones to the first groups: the sum is what was asked for.
  const int64_t step = Spec(KnobId::kReadCacheBytes).step;
  const int64_t steps = setting[KnobId::kReadCacheBytes] / step;
  share.Set(KnobId::kReadCacheBytes, (steps / groups + (group < steps % groups ? 1 : 0)) * step);
  // Likewise the scrubber's MiB a second; below one for each group, each has one.
  if (const int64_t scrub = setting[KnobId::kScrubMibps]; scrub > 0) {
    share.Set(KnobId::kScrubMibps,
              std::max<int64_t>(1, scrub / groups + (group < scrub % groups ? 1 : 0)));
  }
  // A group sees its part of a stream.
  const int64_t bypass_step = Spec(KnobId::kSequentialBypassBytes).step;
  if (const int64_t bypass = setting[KnobId::kSequentialBypassBytes]; bypass > 0) {
    share.Set(KnobId::kSequentialBypassBytes,
              std::max<int64_t>(bypass / groups / bypass_step, 1) * bypass_step);
  }
  return share;
}

absl::Status StripedVolume::CheckRange(uint64_t offset, uint64_t bytes) const {
  if (offset <= volume_bytes_ && bytes <= volume_bytes_ - offset) return absl::OkStatus();
  return absl::OutOfRangeError(fmt::format("{} bytes at {} are beyond the volume's end at {}",
                                           bytes, offset, volume_bytes_));
}

absl::Status StripedVolume::ForEachPiece(
    uint64_t offset, uint64_t bytes,
    const std::function<absl::Status(Volume&, uint64_t, uint64_t, uint64_t)>& verb) {
  EBB_RETURN_IF_ERROR(CheckRange(offset, bytes));
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t at = offset + done;
    const uint64_t left_in_stripe = StripeLayout::kStripeBytes - at % StripeLayout::kStripeBytes;
    const uint64_t piece = std::min(bytes - done, left_in_stripe);
    EBB_RETURN_IF_ERROR(
        verb(*groups_[layout_.GroupOf(at)], layout_.OffsetInGroup(at), done, piece));
    done += piece;
  }
  return absl::OkStatus();
}

absl::Status StripedVolume::ForEachRange(
    uint64_t offset, uint64_t bytes,
    const std::function<absl::Status(Volume&, uint64_t, uint64_t)>& verb) {
  EBB_RETURN_IF_ERROR(CheckRange(offset, bytes));
  for (uint32_t g = 0; g < layout_.group_count; ++g) {
    const uint64_t begin = layout_.BytesBefore(g, offset);
    const uint64_t end = layout_.BytesBefore(g, offset + bytes);
    if (end > begin) EBB_RETURN_IF_ERROR(verb(*groups_[g], begin, end - begin));
  }
  return absl::OkStatus();
}

absl::Status StripedVolume::Finish(Op op, uint64_t bytes, uint64_t begin_ns, absl::Status status) {
  stats_.Record(op, bytes, clock_.MonotonicNs() - begin_ns, status.ok());
  return status;
}

absl::Status StripedVolume::Read(uint64_t offset, std::span<std::byte> out) {
  const uint64_t begin_ns = clock_.MonotonicNs();
  return Finish(Op::kRead, out.size(), begin_ns,
                ForEachPiece(offset, out.size(),
                             [&](Volume& group, uint64_t at, uint64_t done, uint64_t bytes) {
                               return group.Read(at, out.subspan(done, bytes));
                             }));
}

absl::Status StripedVolume::Write(uint64_t offset, std::span<const std::byte> in, bool fua) {
  const uint64_t begin_ns = clock_.MonotonicNs();
  return Finish(Op::kWrite, in.size(), begin_ns,
                ForEachPiece(offset, in.size(),
                             [&](Volume& group, uint64_t at, uint64_t done, uint64_t bytes) {
                               return group.Write(at, in.subspan(done, bytes), fua);
                             }));
}

absl::Status StripedVolume::WriteZeroes(uint64_t offset, uint64_t bytes, bool fua) {
  const uint64_t begin_ns = clock_.MonotonicNs();
  return Finish(Op::kTrim, bytes, begin_ns,
                ForEachRange(offset, bytes, [&](Volume& group, uint64_t at, uint64_t length) {
                  return group.WriteZeroes(at, length, fua);
                }));
}

absl::Status StripedVolume::Trim(uint64_t offset, uint64_t bytes, bool fua) {
  const uint64_t begin_ns = clock_.MonotonicNs();
  return Finish(Op::kTrim, bytes, begin_ns,
                ForEachRange(offset, bytes, [&](Volume& group, uint64_t at, uint64_t length) {
                  return group.Trim(at, length, fua);
                }));
}

absl::Status StripedVolume::Flush() {
  const uint64_t begin_ns = clock_.MonotonicNs();
  absl::Status first_error;
  // A group without news answers at once. After an error the others are flushed all the same.
  for (const auto& group : groups_) {
    absl::Status status = group->Flush();
    if (first_error.ok()) first_error = std::move(status);
  }
  return Finish(Op::kFlush, 0, begin_ns, std::move(first_error));
}

absl::Status StripedVolume::Apply(const Setting& setting) {
  if (const auto faults = SettingFaults(setting, config_.limits); !faults.empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
  }
  const std::lock_guard lock(setting_mutex_);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const absl::Status status = groups_[g]->Apply(ShareOf(setting, g));
    if (status.ok()) continue;
    // All or nothing: those before go back to what they had.
    for (uint32_t back = 0; back < g; ++back) (void)groups_[back]->Apply(ShareOf(setting_, back));
    return Annotate(status, fmt::format("group {}", g + 1));
  }
  setting_ = setting;
  return absl::OkStatus();
}

Setting StripedVolume::CurrentSetting() const {
  const std::lock_guard lock(setting_mutex_);
  return setting_;
}

VolumeMetrics StripedVolume::Metrics() {
  VolumeMetrics total;
  // Before the groups: what a request did to them is never missing from a snapshot that counts it.
  VolumeMetrics requests;
  stats_.Sum(requests);
  for (const auto& group : groups_) AddMetrics(total, group->Metrics());
  for (const auto op : kOps) total.*op = requests.*op;
  return total;
}

std::vector<VolumeNotice> StripedVolume::CheckHealth() {
  std::vector<VolumeNotice> all;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (VolumeNotice& notice : groups_[g]->CheckHealth()) {
      notice.text = fmt::format("group {}: {}", g + 1, notice.text);
      all.push_back(std::move(notice));
    }
  }
  return all;
}

absl::Status StripedVolume::Drain(const std::function<bool(uint64_t dirty_bytes)>& progress) {
  std::mutex progress_mutex;
  std::vector<uint64_t> dirty_bytes(groups_.size(), 0);
  for (size_t g = 0; g < groups_.size(); ++g) dirty_bytes[g] = groups_[g]->Metrics().dirty_bytes;
  return AllGroups([&](uint32_t g) {
    return groups_[g]->Drain([&, g](uint64_t left) {
      const std::lock_guard lock(progress_mutex);
      dirty_bytes[g] = left;
      uint64_t sum = 0;
      for (const uint64_t one : dirty_bytes) sum += one;
      return progress == nullptr || progress(sum);
    });
  });
}

absl::StatusOr<bool> StripedVolume::RunBackgroundStep() {
  bool worked = false;
  for (const auto& group : groups_) {
    EBB_ASSIGN_OR_RETURN(const bool one, group->RunBackgroundStep());
    worked = worked || one;
  }
  return worked;
}

absl::Status StripedVolume::Close() {
  absl::Status first_error;
  for (const auto& group : groups_) {
    absl::Status status = group->Close();
    if (first_error.ok()) first_error = std::move(status);
  }
  return first_error;
}

std::string StripedVolume::Describe() const {
  std::string text = fmt::format("volume of {} striped over {} disk groups",
                                 FormatBytes(volume_bytes_), groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    text += fmt::format("; group {}: {}", g + 1, groups_[g]->Describe());
  }
  return text;
}

std::unique_ptr<RequestQueue> StripedVolume::MakeQueue(size_t depth) {
  return std::make_unique<StripedQueue>(*this, depth);
}

}  // namespace ebb::storage
