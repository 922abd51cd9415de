// The n-th transfer of a kind fails on one of the devices, for n = 1, 2, 3, ... until the operation
// passes without meeting the fault. Nothing that was promised may be lost, nothing wrong be read.
#include <chrono>
#include <string>
#include <thread>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "fmt/format.h"
#include "tests/storage-backend/crash/crash_workload.h"
#include "tests/storage-backend/crash/metrics_check.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBlocks = 128;

using Fault = FaultyDisk::Fault;
// What the fault hits: a random mix of everything, or one management operation.
enum class Phase { kWorkload, kStart, kStop, kDrain, kCompaction };
using Case = std::tuple<bool, Io::Kind, Fault>;  // on the cache device, what fails, how

std::string NameOf(const Case& fault_case) {
  const auto& [on_cache, kind, fault] = fault_case;
  const char* kinds[] = {"Read", "Write", "Flush"};
  const char* faults[] = {"IoError", "NoSpace", "Short", "Lost"};
  return fmt::format("{}{}{}", on_cache ? "Cache" : "Capacity", kinds[static_cast<size_t>(kind)],
                     faults[static_cast<size_t>(fault)]);
}

std::string RunPhase(Phase phase, CrashNode& node, CrashWorkload& workload) {
  switch (phase) {
    case Phase::kWorkload:
      return workload.Run(80);
    case Phase::kStart: {
      node.Kill();
      // A start that meets a fault may fail; what it left is judged by the next one.
      const absl::Status opened = node.Open();
      return opened.ok() ? workload.Verify() : "";
    }
    case Phase::kStop:
      return workload.Stop();
    case Phase::kDrain:
      return workload.Drain();
    case Phase::kCompaction:
      return workload.Compact();
  }
  return "no such phase";
}

class DeviceFaultTest : public ::testing::TestWithParam<Case> {
 protected:
  // What happens with the n-th transfer failing: a fault in words, or "". `met`: the phase came to
  // it.
  static std::string RunWithFault(Phase phase, uint64_t seed, uint64_t nth, bool* met) {
    const auto& [on_cache, kind, fault] = GetParam();
    CrashNode node({.seed = seed, .volume_blocks = kBlocks});
    CrashWorkload workload(node, seed, kBlocks);
    std::string trouble = workload.Recover();
    if (trouble.empty() && phase == Phase::kCompaction) trouble = workload.Scatter();
    if (trouble.empty() && phase != Phase::kWorkload) trouble = workload.Run(25);
    if (!trouble.empty()) return "before the fault: " + trouble;

    FaultyDisk& disk = on_cache ? node.cache() : node.capacity(0);
    disk.FailNth(kind, nth, fault);
    workload.ExpectErrors(true);
    trouble = RunPhase(phase, node, workload);
    *met = disk.counts().faults > 0;
    if (!trouble.empty()) return trouble;
    if (node.is_open()) trouble = MetricsFault(node.volume().Metrics());
    if (!trouble.empty()) return trouble;

    // The device is replaced by one that works, with the same content: after a restart everything
    // that a flush covered is there.
    workload.ExpectErrors(false);
    node.Reboot(seed + nth);
    trouble = workload.Recover();
    if (!trouble.empty()) return "after the restart: " + trouble;
    if (const absl::Status drained = node.volume().Drain(nullptr); !drained.ok()) {
      return "drain after the restart: " + drained.ToString();
    }
    trouble = workload.Verify();
    if (!trouble.empty()) return "after the drain: " + trouble;
    return node.CheckCapacity();
  }

  // Until the phase passes clean; the number of faults it met.
  static uint64_t FaultEverywhere(Phase phase, uint64_t seed) {
    uint64_t nth = 0;
    for (bool met = true; met;) {
      const std::string trouble = RunWithFault(phase, seed, ++nth, &met);
      EXPECT_EQ(trouble, "") << NameOf(GetParam()) << ", phase " << static_cast<int>(phase)
                             << ", seed " << seed << ", transfer " << nth;
      if (!trouble.empty() || nth > 5000) break;
    }
    return nth - 1;
  }
};

TEST_P(DeviceFaultTest, WorkloadLosesNothingThatWasFlushed) {
  testing::internal::CaptureStderr();
  for (const uint64_t seed : {1, 2}) {
    EXPECT_GE(FaultEverywhere(Phase::kWorkload, seed), 4U) << "the device is hardly used";
  }
  testing::internal::GetCapturedStderr();
}

TEST_P(DeviceFaultTest, ManagementLosesNothingThatWasFlushed) {
  testing::internal::CaptureStderr();
  uint64_t faults = 0;
  for (const Phase phase : {Phase::kStart, Phase::kStop, Phase::kDrain, Phase::kCompaction}) {
    for (const uint64_t seed : {1, 2, 3}) faults += FaultEverywhere(phase, seed);
  }
  testing::internal::GetCapturedStderr();
  EXPECT_GT(faults, 5U);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceFaultTest,
                         ::testing::Values(Case{true, Io::Kind::kRead, Fault::kIoError},
                                           Case{true, Io::Kind::kRead, Fault::kShort},
                                           Case{true, Io::Kind::kWrite, Fault::kIoError},
                                           Case{true, Io::Kind::kWrite, Fault::kShort},
                                           Case{true, Io::Kind::kWrite, Fault::kNoSpace},
                                           Case{true, Io::Kind::kFlush, Fault::kIoError},
                                           Case{false, Io::Kind::kRead, Fault::kIoError},
                                           Case{false, Io::Kind::kRead, Fault::kShort},
                                           Case{false, Io::Kind::kWrite, Fault::kIoError},
                                           Case{false, Io::Kind::kWrite, Fault::kShort},
                                           Case{false, Io::Kind::kWrite, Fault::kNoSpace},
                                           Case{false, Io::Kind::kFlush, Fault::kIoError}),
                         [](const auto& test) { return NameOf(test.param); });

// A device that goes away for good, at every transfer of a workload. Reads that still succeed are
// right (the workload checks each), and the node never hangs or dies.
class DeviceLossTest : public ::testing::TestWithParam<bool> {};

TEST_P(DeviceLossTest, AtEveryTransferLosesNothingThatWasFlushed) {
  const bool on_cache = GetParam();
  testing::internal::CaptureStderr();
  uint64_t transfers = 0;
  for (bool met = true; met; ++transfers) {
    CrashNode node({.seed = 3, .volume_blocks = kBlocks});
    CrashWorkload workload(node, 3, kBlocks);
    ASSERT_EQ(workload.Recover(), "");
    FaultyDisk& disk = on_cache ? node.cache() : node.capacity(0);
    disk.LoseAfter(transfers);
    workload.ExpectErrors(true);
    ASSERT_EQ(workload.Run(80), "") << "lost after " << transfers << " transfers";
    met = disk.counts().faults > 0;

    workload.ExpectErrors(false);
    node.Reboot(transfers);
    ASSERT_EQ(workload.Recover(), "") << "lost after " << transfers << " transfers";
    ASSERT_EQ(node.CheckCapacity(), "");
  }
  testing::internal::GetCapturedStderr();
  EXPECT_GT(transfers, 10U);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceLossTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Cache" : "Capacity"; });

// A node with blocks 0 to 9 on the capacity device only and 10 to 19 in the cache only, all
// flushed.
class LostDeviceTest : public ::testing::Test {
 protected:
  LostDeviceTest() {
    node_.config().setting.Set(KnobId::kNvmeReadShare, 0);
    EXPECT_TRUE(node_.Open().ok());
    for (uint64_t block = 0; block < 10; ++block) EXPECT_TRUE(Write(block, 1).ok());
    // What is written last stays in the log's newest segment even when it is clean.
    for (uint64_t block = 60; block < 80; ++block) EXPECT_TRUE(Write(block, 1).ok());
    EXPECT_TRUE(node_.volume().Drain(nullptr).ok());
    for (uint64_t block = 10; block < 20; ++block) EXPECT_TRUE(Write(block, 1).ok());
    EXPECT_TRUE(node_.volume().Flush().ok());
    // Without the buffers of the log: what it has must come from the device.
    EXPECT_TRUE(node_.Open().ok());
  }
  absl::Status Write(uint64_t block, uint64_t version) {
    return node_.volume().Write(block * kBlockBytes, MakeBlock(block, version).span(), false);
  }
  // The version read, or the error's code as a negative number.
  int64_t Read(uint64_t block) {
    std::vector<std::byte> data(kBlockBytes);
    const absl::Status status = node_.volume().Read(block * kBlockBytes, data);
    return status.ok() ? static_cast<int64_t>(VersionOf(block, data)) : -status.raw_code();
  }

  CrashNode node_{{.seed = 1, .volume_blocks = kBlocks}};
};

TEST_F(LostDeviceTest, WithoutTheCacheWhatIsOnTheCapacityDevicesIsRead) {
  node_.cache().LoseAfter(0);

  for (uint64_t block = 0; block < 10; ++block) EXPECT_EQ(Read(block), 1) << block;
  for (uint64_t block = 10; block < 20; ++block) EXPECT_LT(Read(block), 0) << block;
  EXPECT_EQ(Read(50), 0) << "never written";
  EXPECT_GE(node_.volume().Metrics().device_errors, 10U);
}

TEST_F(LostDeviceTest, WithoutTheCacheNoWriteIsPromisedAndOneLineSaysWhy) {
  node_.cache().LoseAfter(0);
  testing::internal::CaptureStderr();

  (void)Write(30, 1);
  EXPECT_FALSE(node_.volume().Flush().ok());
  EXPECT_FALSE(Write(31, 1).ok());
  EXPECT_FALSE(node_.volume().Flush().ok());
  EXPECT_FALSE(node_.volume().RunBackgroundStep().ok());

  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("cache log is fenced"));
  EXPECT_THAT(said, HasSubstr("simulated disk cache"));
  EXPECT_THAT(said, HasSubstr("the device is gone"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

TEST_F(LostDeviceTest, WithoutTheCapacityDeviceTheCacheServesAndTakesWrites) {
  node_.capacity(0).LoseAfter(0);

  for (uint64_t block = 0; block < 10; ++block) EXPECT_LT(Read(block), 0) << block;
  for (uint64_t block = 10; block < 20; ++block) EXPECT_EQ(Read(block), 1) << block;
  EXPECT_TRUE(Write(30, 7).ok());
  EXPECT_TRUE(node_.volume().Flush().ok());
  EXPECT_EQ(Read(30), 7);
  const absl::Status destage = node_.volume().RunBackgroundStep().status();
  EXPECT_THAT(std::string(destage.message()), HasSubstr("simulated disk capacity 0"));
  EXPECT_EQ(Read(30), 7) << "a destage that failed takes nothing out of the cache";

  node_.Reboot(1);
  ASSERT_TRUE(node_.Open().ok());
  EXPECT_EQ(Read(30), 7);
  EXPECT_EQ(Read(3), 1);
}

// fsyncgate: the kernel drops what it could not write and then reports success. So after one failed
// flush there is none that succeeds, though the disk would.
TEST_F(LostDeviceTest, AFailedFlushIsNeverRetriedAsSuccess) {
  testing::internal::CaptureStderr();
  ASSERT_TRUE(Write(40, 1).ok());
  node_.cache().FailNth(Io::Kind::kFlush, 1, Fault::kIoError);
  const uint64_t flushes = node_.cache().counts().flushes;

  for (int i = 0; i < 3; ++i) EXPECT_FALSE(node_.volume().Flush().ok()) << i;
  EXPECT_FALSE(Write(41, 1).ok());
  EXPECT_FALSE(node_.volume().Close().ok());

  testing::internal::GetCapturedStderr();
  EXPECT_EQ(node_.cache().counts().flushes, flushes + 1) << "asked again";
  EXPECT_EQ(node_.volume().Metrics().device_errors, 1U);
  EXPECT_EQ(Read(40), 1) << "reads go on";
}

TEST_F(LostDeviceTest, AFailedCapacityFlushLeavesEverythingInTheCache) {
  node_.capacity(0).FailNth(Io::Kind::kFlush, 1, Fault::kIoError);
  const uint64_t dirty = node_.volume().Metrics().dirty_bytes;

  for (int i = 0; i < 3; ++i) EXPECT_FALSE(node_.volume().RunBackgroundStep().ok()) << i;

  EXPECT_EQ(node_.volume().Metrics().dirty_bytes, dirty);
  node_.Reboot(9);
  ASSERT_TRUE(node_.Open().ok());
  for (uint64_t block = 0; block < 20; ++block) EXPECT_EQ(Read(block), 1) << block;
}

// Goal: one of two capacity devices goes away; what is elsewhere is served as before, and the node
// says once, and in its metrics, which one it was.
class LostCapacityDeviceTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kWritten = 256;

  LostCapacityDeviceTest() {
    Setting& setting = node_.config().setting;
    setting.Set(KnobId::kNvmeReadShare, 0);
    setting.Set(KnobId::kReadaheadBlocks, 0);
    setting.Set(KnobId::kCompression, static_cast<int64_t>(Compression::kOff));
    setting.Set(KnobId::kReadAdmission, static_cast<int64_t>(ReadAdmission::kAlways));
    EXPECT_TRUE(node_.Open().ok());
    for (uint64_t block = 0; block < kWritten; ++block) EXPECT_TRUE(Write(block, 1).ok());
    EXPECT_TRUE(node_.volume().Drain(nullptr).ok());
    // Without what the log and the read cache remember.
    EXPECT_TRUE(node_.Open().ok());
  }
  absl::Status Write(uint64_t block, uint64_t version) {
    return node_.volume().Write(block * kBlockBytes, MakeBlock(block, version).span(), false);
  }
  absl::StatusOr<uint64_t> Read(uint64_t block) {
    std::vector<std::byte> data(kBlockBytes);
    const absl::Status status = node_.volume().Read(block * kBlockBytes, data);
    if (!status.ok()) return status;
    return VersionOf(block, data);
  }
  const DeviceMetrics& Device(const VolumeMetrics& metrics, const std::string& name) {
    return *std::ranges::find(metrics.devices, name, &DeviceMetrics::name);
  }

  CrashNode node_{{.seed = 5,
                   .volume_blocks = 512,
                   .segment_count = 48,
                   .capacity_bytes = 4 << 20,
                   .capacity_devices = 2}};
};

TEST_F(LostCapacityDeviceTest, ReadsOfTheOtherAndOfTheCachesGoOn) {
  ASSERT_TRUE(Write(300, 7).ok());                                            // in the log only
  for (uint64_t block = 0; block < 16; ++block) EXPECT_EQ(*Read(block), 1U);  // now in memory

  node_.capacity(1).LoseAfter(0);

  uint64_t lost = 0;
  for (uint64_t block = 0; block < kWritten; ++block) {
    const absl::StatusOr<uint64_t> version = Read(block);
    if (version.ok()) {
      EXPECT_EQ(*version, 1U);
      continue;
    }
    EXPECT_GE(block, 16U) << "was in memory";
    EXPECT_THAT(std::string(version.status().message()), HasSubstr("simulated disk capacity 1"));
    ++lost;
  }
  EXPECT_GT(lost, kWritten / 8);
  EXPECT_LT(lost, kWritten * 7 / 8);
  EXPECT_EQ(*Read(300), 7U);
  EXPECT_TRUE(Write(301, 8).ok());
  EXPECT_TRUE(node_.volume().Flush().ok());
  EXPECT_EQ(*Read(301), 8U);

  // It comes back, with all that was on it.
  node_.Reboot(1);
  ASSERT_TRUE(node_.Open().ok());
  for (uint64_t block = 0; block < kWritten; ++block) EXPECT_EQ(*Read(block), 1U);
}

TEST_F(LostCapacityDeviceTest, OneNoticeAndTheMetricsNameIt) {
  EXPECT_TRUE(node_.volume().CheckHealth().empty());
  node_.capacity(1).LoseAfter(0);

  std::vector<VolumeNotice> notices;
  uint64_t lost = 0;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t block = 0; block < kWritten; ++block) lost += Read(block).ok() ? 0 : 1;
    node_.clock().AdvanceNs(100 * kNsPerMs);
    for (VolumeNotice& notice : node_.volume().CheckHealth()) notices.push_back(std::move(notice));
  }

  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].kind, VolumeNotice::Kind::kDevice);
  EXPECT_THAT(notices[0].text, HasSubstr("device capacity1 of group 1 (simulated disk capacity 1"));
  EXPECT_THAT(notices[0].text, HasSubstr("the device is gone"));
  EXPECT_EQ(std::ranges::count(notices[0].text, '\n'), 0);
  const VolumeMetrics metrics = node_.volume().Metrics();
  EXPECT_EQ(metrics.read.errors, lost);
  EXPECT_TRUE(Device(metrics, "capacity1").failing);
  EXPECT_GE(Device(metrics, "capacity1").errors, lost);
  for (const char* const well : {"cache", "capacity0"}) {
    EXPECT_FALSE(Device(metrics, well).failing) << well;
    EXPECT_EQ(Device(metrics, well).errors, 0U) << well;
  }
}

// Goal: a destage that is tried again every second does not fill the log. Each try fails at another
// place of the device.
TEST_F(LostCapacityDeviceTest, DestageThatTriesOnSaysItOnce) {
  node_.config().background_threads = true;
  node_.config().setting.Set(KnobId::kDestageWatermark, 5);
  ASSERT_TRUE(node_.Open().ok());
  node_.capacity(1).LoseAfter(0);
  testing::internal::CaptureStderr();
  for (uint64_t block = 300; block < 400; ++block) EXPECT_TRUE(Write(block, 2).ok());
  EXPECT_TRUE(node_.volume().Flush().ok());
  std::vector<VolumeNotice> notices;
  const auto tries = [&] { return node_.capacity(1).counts().faults; };
  for (int retry = 0; retry < 6; ++retry) {
    const uint64_t before = tries();
    for (int i = 0; i < 3000 && tries() == before; ++i) {
      node_.clock().AdvanceNs(100 * kNsPerMs);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      for (VolumeNotice& notice : node_.volume().CheckHealth()) {
        if (notice.kind == VolumeNotice::Kind::kDevice) notices.push_back(std::move(notice));
      }
    }
    EXPECT_GT(tries(), before) << "destage gave up";
  }
  node_.Kill();

  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("simulated disk capacity 1"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_EQ(notices.size(), 1U);
}

}  // namespace
}  // namespace ebb::storage
