#include "tests/storage-backend/crash/crash_workload.h"

#include <algorithm>

#include "fmt/format.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {

bool BlockOracle::Settle(uint64_t block, uint64_t version) {
  auto& versions = versions_[block];
  if (std::find(versions.begin(), versions.end(), version) == versions.end()) return false;
  versions = {version};
  return true;
}

std::string BlockOracle::Allowed(uint64_t block) const {
  return fmt::format("{}", fmt::join(versions_[block], ", "));
}

std::string CrashWorkload::Judge(const char* verb, const absl::Status& status) const {
  if (status.ok() || !node_.power().on()) return "";
  return fmt::format("{}: {}", verb, status.ToString());
}

std::string CrashWorkload::Run(int steps) {
  for (int step = 0; step < steps && node_.power().on(); ++step) {
    node_.clock().AdvanceNs(rng_.Below(3'000'000));
    if (std::string fault = Step(); !fault.empty()) return fmt::format("step {}: {}", step, fault);
  }
  return "";
}

std::string CrashWorkload::Step() {
  const uint64_t block = rng_.Below(oracle_.blocks());
  const uint64_t count = 1 + rng_.Below(std::min<uint64_t>(oracle_.blocks() - block, 12));
  const uint64_t action = rng_.Below(100);
  if (action < 55) return Write(block, count);
  if (action < 65) return Zero(block, count);
  if (action < 73) {
    const absl::Status status = node_.volume().Flush();
    if (status.ok()) oracle_.Flushed();
    return Judge("flush", status);
  }
  if (action < 90) return Judge("background", node_.volume().RunBackgroundStep().status());
  if (action < 94) {
    ChangeKnobs();
    return "";
  }
  if (action < 96) return Judge("drain", node_.volume().Drain(nullptr));
  return Reopen();
}

std::string CrashWorkload::Write(uint64_t block, uint64_t count) {
  const bool fua = rng_.Chance(0.1);
  AlignedBuffer data(count * kBlockBytes);
  for (uint64_t i = 0; i < count; ++i) {
    AlignedBuffer one = MakeBlock(block + i, ++version_);
    std::copy_n(one.data(), kBlockBytes, data.data() + i * kBlockBytes);
    oracle_.Offer(block + i, version_);
  }
  const absl::Status status = node_.volume().Write(block * kBlockBytes, data.span(), fua);
  if (status.ok() && fua) {
    for (uint64_t i = 0; i < count; ++i) oracle_.FlushedBlock(block + i);
  }
  return Judge("write", status);
}

std::string CrashWorkload::Zero(uint64_t block, uint64_t count) {
  const bool trim = rng_.Chance(0.5);
  const bool fua = rng_.Chance(0.1);
  for (uint64_t i = 0; i < count; ++i) oracle_.Offer(block + i, 0);
  Volume& volume = node_.volume();
  const absl::Status status =
      trim ? volume.Trim(block * kBlockBytes, count * kBlockBytes, fua)
           : volume.WriteZeroes(block * kBlockBytes, count * kBlockBytes, fua);
  if (status.ok() && fua) {
    for (uint64_t i = 0; i < count; ++i) oracle_.FlushedBlock(block + i);
  }
  return Judge("trim", status);
}

std::string CrashWorkload::Reopen() {
  if (rng_.Chance(0.5)) {
    const absl::Status status = node_.volume().Close();
    if (status.ok()) oracle_.Flushed();
    if (std::string fault = Judge("close", status); !fault.empty()) return fault;
    if (!node_.power().on()) return "";
  } else {
    node_.Kill();
  }
  return Recover();
}

void CrashWorkload::ChangeKnobs() {
  Setting setting = node_.volume().CurrentSetting();
  setting.Set(KnobId::kNvmeReadShare, static_cast<int64_t>(rng_.Below(19)) * 5);
  setting.Set(KnobId::kDestageBatchBytes, (1 + static_cast<int64_t>(rng_.Below(2))) * 256 * 1024);
  setting.Set(KnobId::kCompression, static_cast<int64_t>(rng_.Below(4)));
  setting.Set(KnobId::kDedup, static_cast<int64_t>(rng_.Below(2)));
  setting.Set(KnobId::kCompressionUnitBytes, (1 + static_cast<int64_t>(rng_.Below(8))) * 4096);
  (void)node_.volume().Apply(setting);
}

std::string CrashWorkload::Recover() {
  const absl::Status status = node_.Open();
  if (!status.ok()) return Judge("open", status);
  return Verify();
}

std::string CrashWorkload::Verify() {
  std::vector<std::byte> data(kBlockBytes);
  for (uint64_t block = 0; block < oracle_.blocks(); ++block) {
    const absl::Status status = node_.volume().Read(block * kBlockBytes, data);
    if (!node_.power().on()) return "";
    if (!status.ok()) return fmt::format("read of block {}: {}", block, status.ToString());
    const uint64_t found = VersionOf(block, data);
    const std::string allowed = oracle_.Allowed(block);
    if (!oracle_.Settle(block, found)) {
      return fmt::format("block {} came back as version {}, allowed are {}", block, found, allowed);
    }
  }
  return "";
}

}  // namespace ebb::storage
