#include "tests/storage-backend/crash/crash_workload.h"

#include <algorithm>

#include "fmt/format.h"
#include "tests/storage-backend/crash/metrics_check.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {

void BlockOracle::FlushedBlock(uint64_t block) {
  auto& versions = versions_[block];
  const auto last = std::find_if(versions.rbegin(), versions.rend(),
                                 [](const Candidate& c) { return c.acknowledged; });
  versions.erase(versions.begin(), std::prev(last.base()));
}

bool BlockOracle::Allows(uint64_t block, uint64_t version) const {
  const auto& versions = versions_[block];
  return std::any_of(versions.begin(), versions.end(),
                     [&](const Candidate& c) { return c.version == version; });
}

bool BlockOracle::Settle(uint64_t block, uint64_t version) {
  if (!Allows(block, version)) return false;
  versions_[block] = {{.version = version, .acknowledged = true}};
  return true;
}

std::string BlockOracle::Allowed(uint64_t block) const {
  std::string text;
  for (const Candidate& one : versions_[block]) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", one.version,
                        one.acknowledged ? "" : " (not acknowledged)");
  }
  return text;
}

std::string CrashWorkload::Judge(const char* verb, const absl::Status& status) {
  if (status.ok() || !node_.power().on()) return "";
  ++errors_seen_;
  if (errors_expected_) return "";
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
  if (action < 45) return Write(block, count);
  if (action < 55) return Read(block, count);
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
  for (uint64_t i = 0; i < count && status.ok(); ++i) {
    oracle_.Acknowledge(block + i);
    if (fua) oracle_.FlushedBlock(block + i);
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
  for (uint64_t i = 0; i < count && status.ok(); ++i) {
    oracle_.Acknowledge(block + i);
    if (fua) oracle_.FlushedBlock(block + i);
  }
  return Judge("trim", status);
}

std::string CrashWorkload::Read(uint64_t block, uint64_t count) {
  std::vector<std::byte> data(count * kBlockBytes);
  const absl::Status status = node_.volume().Read(block * kBlockBytes, data);
  if (!status.ok()) return Judge("read", status);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t found =
        VersionOf(block + i, std::span(data).subspan(i * kBlockBytes, kBlockBytes));
    // After an error it is open whether the write behind it took place.
    const bool right =
        errors_seen_ > 0 ? oracle_.Allows(block + i, found) : found == oracle_.Current(block + i);
    if (!right) {
      return fmt::format("block {} reads as version {}, not one of {}", block + i, found,
                         oracle_.Allowed(block + i));
    }
  }
  return "";
}

std::string CrashWorkload::Stop() {
  const absl::Status status = node_.volume().Close();
  if (status.ok()) oracle_.Flushed();
  node_.Kill();
  return Judge("close", status);
}

std::string CrashWorkload::Reopen() {
  if (errors_expected_) return "";
  if (rng_.Chance(0.5)) {
    if (std::string fault = Stop(); !fault.empty()) return fault;
    if (!node_.power().on()) return "";
  } else {
    node_.Kill();
  }
  return Recover();
}

std::string CrashWorkload::Drain() {
  std::string fault;
  int writes_left = 3;
  const absl::Status status = node_.volume().Drain([&](uint64_t dirty_bytes) {
    if (dirty_bytes == 0 || writes_left == 0) return true;
    --writes_left;
    fault = Write(rng_.Below(oracle_.blocks()), 1);
    return fault.empty();
  });
  if (!fault.empty()) return fault;
  if (fault = Judge("drain", status); !fault.empty()) return fault;
  if (status.ok() && node_.volume().Metrics().dirty_bytes != 0) return "dirty after a drain";
  return "";
}

std::string CrashWorkload::Resize(int steps) {
  for (int step = 0; step < steps && node_.power().on(); ++step) {
    node_.clock().AdvanceNs(rng_.Below(3'000'000));
    Setting setting = node_.volume().CurrentSetting();
    setting.Set(KnobId::kNvmeReadShare, static_cast<int64_t>(rng_.Below(19)) * 5);
    setting.Set(KnobId::kReadCacheBytes, static_cast<int64_t>(rng_.Below(2)) << 20);
    if (const absl::Status status = node_.volume().Apply(setting); !status.ok()) {
      return "resize: " + status.ToString();
    }
    const uint64_t block = rng_.Below(oracle_.blocks() - 12);
    std::string fault = Read(block, 1 + rng_.Below(12));
    if (fault.empty() && node_.power().on()) fault = Write(block, 1 + rng_.Below(12));
    if (fault.empty() && node_.power().on()) {
      fault = Judge("background", node_.volume().RunBackgroundStep().status());
    }
    if (!fault.empty()) return fmt::format("resize step {}: {}", step, fault);
  }
  return "";
}

std::string CrashWorkload::Scatter() {
  Setting setting = node_.volume().CurrentSetting();
  setting.Set(KnobId::kCompression, static_cast<int64_t>(Compression::kOff));
  if (const absl::Status status = node_.volume().Apply(setting); !status.ok()) {
    return "scatter: " + status.ToString();
  }
  std::string fault = Overwrite(1.0);
  if (fault.empty()) fault = Overwrite(0.8);
  return fault.empty() ? Overwrite(0.8) : fault;
}

std::string CrashWorkload::Overwrite(double share) {
  std::string fault;
  for (uint64_t block = 0; block < oracle_.blocks() && node_.power().on(); ++block) {
    if (!rng_.Chance(share)) continue;
    if (fault = Write(block, 1); !fault.empty()) return fault;
  }
  return node_.power().on() ? Judge("drain", node_.volume().Drain(nullptr)) : "";
}

std::string CrashWorkload::Compact() {
  for (int round = 0; round < 2; ++round) {
    absl::StatusOr<bool> worked = true;
    while (worked.ok() && *worked) worked = node_.volume().RunBackgroundStep();
    std::string fault = Judge("compaction", worked.status());
    if (!fault.empty() || !node_.power().on()) return fault;
    if (fault = Overwrite(0.9); !fault.empty() || !node_.power().on()) return fault;
  }
  return "";
}

void CrashWorkload::ChangeKnobs() {
  Setting setting = node_.volume().CurrentSetting();
  setting.Set(KnobId::kNvmeReadShare, static_cast<int64_t>(rng_.Below(19)) * 5);
  setting.Set(KnobId::kDestageBatchBytes, (1 + static_cast<int64_t>(rng_.Below(2))) * 256 * 1024);
  setting.Set(KnobId::kCompression, static_cast<int64_t>(rng_.Below(4)));
  setting.Set(KnobId::kDedup, static_cast<int64_t>(rng_.Below(3)));
  setting.Set(KnobId::kCompressionUnitBytes, (1 + static_cast<int64_t>(rng_.Below(8))) * 4096);
  (void)node_.volume().Apply(setting);
}

std::string CrashWorkload::Recover() {
  const absl::Status status = node_.Open();
  if (!status.ok()) return Judge("open", status);
  if (std::string fault = Verify(); !fault.empty()) return fault;
  return node_.power().on() ? MetricsFault(node_.volume().Metrics()) : "";
}

std::string CrashWorkload::Verify() {
  constexpr uint64_t kBlocksARead = 16;
  std::vector<std::byte> data(kBlocksARead * kBlockBytes);
  for (uint64_t first = 0; first < oracle_.blocks(); first += kBlocksARead) {
    const uint64_t count = std::min(kBlocksARead, oracle_.blocks() - first);
    const absl::Status status =
        node_.volume().Read(first * kBlockBytes, std::span(data).first(count * kBlockBytes));
    if (!node_.power().on()) return "";
    if (!status.ok()) {
      if (std::string fault = Judge("verify", status); !fault.empty()) return fault;
      continue;
    }
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t block = first + i;
      const uint64_t found =
          VersionOf(block, std::span(data).subspan(i * kBlockBytes, kBlockBytes));
      if (!oracle_.Allows(block, found)) {
        return fmt::format("block {} came back as version {}, allowed are {}", block, found,
                           oracle_.Allowed(block));
      }
      oracle_.Settle(block, found);
    }
  }
  return "";
}

}  // namespace ebb::storage
