// Goal: hold every model to the public figures it claims (service_model.h), in simulated time.
#include "storage-backend/device/service_model.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <vector>

#include "base/rng.h"
#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::storage {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kDeviceBytes = 4 * kGiB;

std::unique_ptr<ServiceModel> Make(std::string_view name, double scale = 1, uint64_t seed = 1) {
  auto model = MakeServiceModel(name, {.device_bytes = kDeviceBytes, .seed = seed, .scale = scale});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

enum class Pattern { kRandom, kSequential };

struct Load {
  Io::Kind kind = Io::Kind::kRead;
  Pattern pattern = Pattern::kRandom;
  uint64_t bytes = 4096;
  size_t depth = 1;
  size_t count = 2000;
};

struct Outcome {
  double mean_us = 0;
  double iops = 0;
  double mb_per_s = 0;
};

// A closed loop: `depth` requests in flight, each followed by the next at once.
Outcome Drive(ServiceModel& model, const Load& load) {
  Rng rng(7);
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> completions;
  for (size_t i = 0; i < load.depth; ++i) completions.push(1000);
  uint64_t next_offset = 0;
  uint64_t last_ns = 0;
  double sum_ns = 0;
  for (size_t i = 0; i < load.count; ++i) {
    const uint64_t now_ns = completions.top();
    completions.pop();
    const uint64_t offset = load.pattern == Pattern::kRandom
                                ? rng.Below(kDeviceBytes / load.bytes) * load.bytes
                                : std::exchange(next_offset, next_offset + load.bytes);
    const uint64_t done_ns = model.CompletionNs(now_ns, {load.kind, offset, load.bytes});
    EXPECT_GE(done_ns, now_ns);
    sum_ns += static_cast<double>(done_ns - now_ns);
    last_ns = std::max(last_ns, done_ns);
    completions.push(done_ns);
  }
  const double count = static_cast<double>(load.count);
  const double seconds = static_cast<double>(last_ns) / 1e9;
  return {.mean_us = sum_ns / count / 1e3,
          .iops = count / seconds,
          .mb_per_s = count * static_cast<double>(load.bytes) / seconds / 1e6};
}

Outcome Drive(std::string_view name, const Load& load) { return Drive(*Make(name), load); }

TEST(ServiceModelTest, DiskRandomReadTakesSeekPlusHalfATurn) {
  const Outcome outcome = Drive("disk-7200", {});

  EXPECT_GT(outcome.mean_us, 12'000);
  EXPECT_LT(outcome.mean_us, 13'000);
}

TEST(ServiceModelTest, DiskQueueShortensPositioning) {
  const Outcome outcome = Drive("disk-7200", {.depth = 32});

  EXPECT_GT(outcome.iops, 150);
  EXPECT_LT(outcome.iops, 230);
}

TEST(ServiceModelTest, DiskStreamsAtItsMediaRate) {
  for (const Io::Kind kind : {Io::Kind::kRead, Io::Kind::kWrite}) {
    const Outcome outcome =
        Drive("disk-7200",
              {.kind = kind, .pattern = Pattern::kSequential, .bytes = 256 * kKiB, .count = 8000});

    EXPECT_GT(outcome.mb_per_s, 170);
    EXPECT_LT(outcome.mb_per_s, 195);
  }
}

TEST(ServiceModelTest, DiskSmallSequentialReadsComeFromReadAhead) {
  const Outcome outcome = Drive("disk-7200", {.pattern = Pattern::kSequential, .count = 5000});

  EXPECT_LT(outcome.mean_us, 200);
}

TEST(ServiceModelTest, DiskCacheTakesABurstAndThenFallsToTheMedia) {
  auto model = Make("disk-7200");

  const Outcome burst = Drive(*model, {.kind = Io::Kind::kWrite, .count = 400});
  const Outcome sustained = Drive("disk-7200", {.kind = Io::Kind::kWrite, .count = 20'000});

  EXPECT_LT(burst.mean_us, 200);
  EXPECT_GT(sustained.iops, 300);
  EXPECT_LT(sustained.iops, 450);
}

TEST(ServiceModelTest, DiskFlushWaitsForTheCache) {
  auto model = Make("disk-7200");
  const uint64_t empty_ns = model->CompletionNs(1000, {Io::Kind::kFlush, 0, 0}) - 1000;
  Drive(*model, {.kind = Io::Kind::kWrite, .count = 200});

  const uint64_t begin_ns = 10 * kNsPerMs;
  const uint64_t full_ns = model->CompletionNs(begin_ns, {Io::Kind::kFlush, 0, 0}) - begin_ns;

  EXPECT_LT(empty_ns, kNsPerMs);
  EXPECT_GT(full_ns, 200 * kNsPerMs);
  EXPECT_LT(full_ns, 2 * kNsPerS);
}

TEST(ServiceModelTest, DiskReadCutsIntoCacheWriteBack) {
  auto model = Make("disk-7200");
  Drive(*model, {.kind = Io::Kind::kWrite, .count = 400});

  const uint64_t done_ns = model->CompletionNs(50 * kNsPerMs, {Io::Kind::kRead, kGiB, 4096});

  EXPECT_LT(done_ns, 90 * kNsPerMs);
}

TEST(ServiceModelTest, SataFlashMeetsItsClass) {
  const Outcome qd1 = Drive("sata-ssd", {});
  const Outcome qd32 = Drive("sata-ssd", {.depth = 32, .count = 50'000});
  const Outcome stream = Drive(
      "sata-ssd", {.pattern = Pattern::kSequential, .bytes = kMiB, .depth = 2, .count = 2000});
  const Outcome stream_write = Drive("sata-ssd", {.kind = Io::Kind::kWrite,
                                                  .pattern = Pattern::kSequential,
                                                  .bytes = kMiB,
                                                  .depth = 2,
                                                  .count = 2000});

  EXPECT_NEAR(qd1.mean_us, 100, 8);
  EXPECT_GT(qd32.iops, 80'000);
  EXPECT_LT(qd32.iops, 105'000);
  EXPECT_NEAR(stream.mb_per_s, 530, 30);
  EXPECT_NEAR(stream_write.mb_per_s, 510, 30);
}

TEST(ServiceModelTest, QlcFlashMeetsItsClass) {
  const Outcome qd1 = Drive("qlc-ssd", {});
  const Outcome qd32 = Drive("qlc-ssd", {.depth = 32, .count = 50'000});
  const Outcome stream =
      Drive("qlc-ssd", {.pattern = Pattern::kSequential, .bytes = kMiB, .depth = 2, .count = 2000});
  const Outcome stream_write = Drive("qlc-ssd", {.kind = Io::Kind::kWrite,
                                                 .pattern = Pattern::kSequential,
                                                 .bytes = kMiB,
                                                 .depth = 2,
                                                 .count = 2000});

  EXPECT_NEAR(qd1.mean_us, 130, 8);
  EXPECT_GT(qd32.iops, 70'000);
  EXPECT_LT(qd32.iops, 105'000);
  EXPECT_NEAR(stream.mb_per_s, 530, 30);
  EXPECT_NEAR(stream_write.mb_per_s, 161, 10);
}

TEST(ServiceModelTest, NvmeMeetsItsClass) {
  const Outcome read = Drive("nvme", {});
  const Outcome write = Drive("nvme", {.kind = Io::Kind::kWrite});
  const Outcome qd256 = Drive("nvme", {.depth = 256, .count = 200'000});
  const Outcome stream =
      Drive("nvme", {.pattern = Pattern::kSequential, .bytes = kMiB, .depth = 8, .count = 8000});

  EXPECT_NEAR(read.mean_us, 80, 5);
  EXPECT_NEAR(write.mean_us, 20, 2);
  EXPECT_GT(qd256.iops, 550'000);
  EXPECT_LT(qd256.iops, 700'000);
  EXPECT_NEAR(stream.mb_per_s, 3100, 150);
}

// Method: the same reads on an idle drive and on one that is being written at its full rate.
TEST(ServiceModelTest, FlashReadsSlowDownBehindPrograms) {
  for (const char* name : {"sata-ssd", "qlc-ssd", "nvme"}) {
    auto model = Make(name);
    Rng rng(3);
    uint64_t now_ns = 1000;
    double idle_ns = 0;
    double busy_ns = 0;
    for (int i = 0; i < 500; ++i) {
      const uint64_t done_ns = model->CompletionNs(
          now_ns, {Io::Kind::kRead, rng.Below(kDeviceBytes / 4096) * 4096, 4096});
      idle_ns += static_cast<double>(done_ns - now_ns);
      now_ns = done_ns;
    }
    for (int i = 0; i < 500; ++i) {
      now_ns = model->CompletionNs(now_ns, {Io::Kind::kWrite, 0, kMiB});
      const uint64_t done_ns = model->CompletionNs(
          now_ns, {Io::Kind::kRead, rng.Below(kDeviceBytes / 4096) * 4096, 4096});
      busy_ns += static_cast<double>(done_ns - now_ns);
      now_ns = done_ns;
    }

    EXPECT_GT(busy_ns, 1.3 * idle_ns) << name;
    EXPECT_LT(busy_ns, 3 * idle_ns) << name;
  }
}

TEST(ServiceModelTest, SameSeedSameTimes) {
  for (const std::string& name : ServiceModelNames()) {
    EXPECT_EQ(Drive(*Make(name, 1, 5), {}).mean_us, Drive(*Make(name, 1, 5), {}).mean_us) << name;
    EXPECT_NE(Drive(*Make(name, 1, 5), {}).mean_us, Drive(*Make(name, 1, 6), {}).mean_us) << name;
  }
}

TEST(ServiceModelTest, ScaleMakesEverythingThatMuchFaster) {
  for (const std::string& name : ServiceModelNames()) {
    for (const Io::Kind kind : {Io::Kind::kRead, Io::Kind::kWrite}) {
      const Load load{.kind = kind, .bytes = 64 * kKiB, .depth = 4, .count = 20'000};

      const double ratio = Drive(*Make(name), load).mean_us / Drive(*Make(name, 10), load).mean_us;

      EXPECT_NEAR(ratio, 10, 0.5) << name;
    }
  }
}

TEST(ServiceModelTest, TimeMayNotRunBackwards) {
  for (const std::string& name : ServiceModelNames()) {
    auto model = Make(name);
    model->CompletionNs(kNsPerS, {Io::Kind::kRead, 0, 4096});

    EXPECT_GE(model->CompletionNs(5, {Io::Kind::kRead, kMiB, 4096}), kNsPerS) << name;
  }
}

TEST(ServiceModelTest, AClassIsItsParameters) {
  for (const std::string& name : ServiceModelNames()) {
    auto by_name = Make(name);
    const ServiceModelOptions options{.device_bytes = kDeviceBytes, .seed = 1};
    auto by_parameters = MakeServiceModel(*ServiceParametersOf(name), options);
    ASSERT_TRUE(by_parameters.ok()) << by_parameters.status();
    EXPECT_EQ(Drive(*by_name, {.count = 100}).mean_us,
              Drive(**by_parameters, {.count = 100}).mean_us);
  }
  EXPECT_FALSE(ServiceParametersOf("floppy").has_value());
}

TEST(ServiceModelTest, AnotherDeviceThanTheClassesFollowsItsParameters) {
  auto slow = std::get<FlashParameters>(*ServiceParametersOf("sata-ssd"));
  slow.read_ns *= 3;
  auto disk = std::get<DiskParameters>(*ServiceParametersOf("disk-7200"));
  disk.bytes_per_ns /= 2;
  const ServiceModelOptions options{.device_bytes = kDeviceBytes, .seed = 1};

  const Outcome slow_reads = Drive(**MakeServiceModel(slow, options), {});
  const Outcome stream = Drive(**MakeServiceModel(disk, options),
                               {.pattern = Pattern::kSequential, .bytes = kMiB, .count = 200});

  EXPECT_NEAR(slow_reads.mean_us, Drive(*Make("sata-ssd"), {}).mean_us + 150, 5);
  EXPECT_NEAR(stream.mb_per_s, 90, 3);
}

TEST(ServiceModelTest, RefusesParametersThatNoDeviceHas) {
  auto flash = std::get<FlashParameters>(*ServiceParametersOf("nvme"));
  flash.dies = 0;
  auto disk = std::get<DiskParameters>(*ServiceParametersOf("disk-7200"));
  disk.bytes_per_ns = std::numeric_limits<double>::quiet_NaN();
  const ServiceModelOptions options{.device_bytes = kDeviceBytes, .seed = 1};

  EXPECT_THAT(std::string(MakeServiceModel(flash, options).status().message()), HasSubstr("dies"));
  EXPECT_THAT(std::string(MakeServiceModel(disk, options).status().message()),
              HasSubstr("bytes_per_ns"));
}

TEST(ServiceModelTest, NamesTheModelsWhenOneIsUnknown) {
  const absl::Status status = MakeServiceModel("floppy", {.device_bytes = kGiB}).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::HasSubstr("disk-7200, sata-ssd, qlc-ssd, nvme"));
  EXPECT_FALSE(MakeServiceModel("nvme", {.device_bytes = kGiB, .scale = 0}).ok());
  EXPECT_FALSE(MakeServiceModel("nvme", {}).ok());
}

}  // namespace
}  // namespace ebb::storage
