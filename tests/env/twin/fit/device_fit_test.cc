// Goal: a fit finds the parameters of a device that it only saw from outside, in simulated time.
#include "env/twin/fit/device_fit.h"

#include <cmath>
#include <memory>

#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::twin {
namespace {

using storage::DiskParameters;
using storage::FlashParameters;
using storage::ServiceParameters;
using ::testing::HasSubstr;

constexpr uint64_t kDeviceBytes = 2 * kGiB;

ProbeFigures Measure(const ServiceParameters& parameters, const ProbeOptions& options) {
  auto model = storage::MakeServiceModel(parameters, {.device_bytes = kDeviceBytes, .seed = 42});
  EXPECT_TRUE(model.ok()) << model.status();
  return ProbeModel(**model, kDeviceBytes, options);
}

DeviceFit Fit(const ProbeFigures& measured, const ProbeOptions& options) {
  auto fit = FitDevice(measured, kDeviceBytes, options);
  EXPECT_TRUE(fit.ok()) << fit.status();
  return fit.value_or(DeviceFit{});
}

FlashParameters OddFlash() {
  return {.dies = 10,
          .read_ns = 160e3,
          .program_ns = 2.6e6,
          .suspend_ns = 190e3,
          .command_ns = 2e3,
          .controller_ns = 30e3,
          .write_ack_ns = 70e3,
          .flush_ns = 450e3,
          .link_bytes_per_ns = 0.35,
          .page_bytes = 16 * kKiB,
          .program_unit_bytes = 64 * kKiB,
          .buffer_bytes = 8 * kMiB};
}

TEST(DeviceFitTest, FindsFlashThatIsNoClass) {
  const ProbeOptions options{.writes = true};
  const FlashParameters truth = OddFlash();

  const DeviceFit fit = Fit(Measure(truth, options), options);

  ASSERT_TRUE(std::holds_alternative<FlashParameters>(fit.parameters));
  const auto& found = std::get<FlashParameters>(fit.parameters);
  EXPECT_LT(fit.error_median, 0.03) << fit.worst_figure << " " << fit.error_max;
  // What reads and controller take cannot be told apart from outside, only their sum.
  EXPECT_NEAR(found.read_ns + found.controller_ns, truth.read_ns + truth.controller_ns, 12e3);
  EXPECT_NEAR(found.link_bytes_per_ns, truth.link_bytes_per_ns, 0.1 * truth.link_bytes_per_ns);
  EXPECT_NEAR(found.write_ack_ns, truth.write_ack_ns, 0.1 * truth.write_ack_ns);
  EXPECT_NEAR(found.flush_ns, truth.flush_ns, 0.05 * truth.flush_ns);
  const auto write_rate = [](const FlashParameters& p) {
    return static_cast<double>(p.dies * p.program_unit_bytes) / p.program_ns;
  };
  EXPECT_NEAR(write_rate(found), write_rate(truth), 0.15 * write_rate(truth));
}

TEST(DeviceFitTest, FindsADiskThatIsNoClass) {
  const ProbeOptions options{.writes = true};
  const DiskParameters truth{.revolution_ns = 11.1e6,  // 5400 rpm
                             .bytes_per_ns = 0.120,
                             .link_bytes_per_ns = 0.300,
                             .overhead_ns = 200e3,
                             .seek_min_ns = 1.5e6,
                             .seek_slope_ns = 19e6,
                             .cache_bytes = 8 * kMiB};

  const DeviceFit fit = Fit(Measure(truth, options), options);

  ASSERT_TRUE(std::holds_alternative<DiskParameters>(fit.parameters));
  const auto& found = std::get<DiskParameters>(fit.parameters);
  EXPECT_LT(fit.error_median, 0.05) << fit.worst_figure << " " << fit.error_max;
  EXPECT_NEAR(found.bytes_per_ns, truth.bytes_per_ns, 0.1 * truth.bytes_per_ns);
  const auto mean_read = [](const DiskParameters& p) {
    return p.seek_min_ns + p.seek_slope_ns * 8 / 15 + p.revolution_ns / 2;
  };
  EXPECT_NEAR(mean_read(found), mean_read(truth), 0.1 * mean_read(truth));
}

TEST(DeviceFitTest, AClassMadeSlowerIsThatClass) {
  const ProbeOptions options{.writes = true};
  auto model = storage::MakeServiceModel("qlc-ssd", {.device_bytes = kDeviceBytes, .scale = 0.25});
  const ProbeFigures measured = ProbeModel(**model, kDeviceBytes, options);

  const DeviceFit fit = Fit(measured, options);

  EXPECT_EQ(fit.nearest_class, "qlc-ssd");
  EXPECT_LT(fit.error_max, 0.1) << fit.worst_figure;
}

TEST(DeviceFitTest, WithoutWritesTheirParametersAreThoseOfTheClass) {
  const ProbeOptions options{.writes = false};
  const ProbeFigures measured = Measure(*storage::ServiceParametersOf("sata-ssd"), options);
  for (size_t i = kReadProbes; i < kProbeFigures; ++i) EXPECT_EQ(measured.value[i], 0);

  const DeviceFit fit = Fit(measured, options);

  const auto& found = std::get<FlashParameters>(fit.parameters);
  const auto truth = std::get<FlashParameters>(*storage::ServiceParametersOf("sata-ssd"));
  EXPECT_EQ(found.write_ack_ns, truth.write_ack_ns);
  EXPECT_EQ(found.flush_ns, truth.flush_ns);
}

TEST(DeviceFitTest, RefusesAnswersThatNoDeviceGives) {
  const ProbeOptions options{.writes = true};
  ProbeFigures measured = Measure(OddFlash(), options);
  measured.value[2] = std::nan("");
  EXPECT_THAT(std::string(FitDevice(measured, kDeviceBytes, options).status().message()),
              HasSubstr("64 KiB read"));
  measured = Measure(OddFlash(), {.writes = false});
  EXPECT_EQ(FitDevice(measured, kDeviceBytes, options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(DeviceProbeTest, SameModelAndSeedSameFigures) {
  const ProbeOptions options{.writes = true};
  EXPECT_EQ(Measure(OddFlash(), options).value, Measure(OddFlash(), options).value);
}

TEST(DeviceProbeTest, ReadsAloneWriteNothing) {
  // Every write would move programs and so the reads that follow; the model must not see one.
  class Watch final : public storage::ServiceModel {
   public:
    uint64_t CompletionNs(uint64_t now_ns, const storage::ServiceRequest& request) override {
      EXPECT_EQ(request.kind, storage::Io::Kind::kRead);
      ++requests;
      return now_ns + 1'000;
    }
    size_t requests = 0;
  } watch;

  ProbeModel(watch, kDeviceBytes, {.writes = false});

  EXPECT_GT(watch.requests, 1'000u);
}

}  // namespace
}  // namespace ebb::twin
