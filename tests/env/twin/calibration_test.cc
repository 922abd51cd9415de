#include "env/twin/calibration.h"

#include <gtest/gtest.h>

namespace ebb::twin {
namespace {

constexpr double kCloseNs = 30'000;

// A node whose reads and writes take what the processor takes, and reads `device_ns` more.
env::WindowMetrics Latencies(const NodeModel& model, double device_ns) {
  env::WindowMetrics metrics;
  metrics.read.ops = metrics.write.ops = 1000;
  metrics.read.p50_ns = model.cpu.read_request + model.cpu.read_block + device_ns;
  metrics.read.p99_ns = metrics.read.p50_ns + 100'000;
  metrics.write.p50_ns = model.cpu.write_request + model.cpu.write_block;
  metrics.write.p99_ns = metrics.write.p50_ns + model.cpu.group_close;
  return metrics;
}

NodeModel Fitted() {
  NodeModel model;
  model.cpu.read_request = 400;
  model.cpu.read_block = 600;
  model.cpu.write_request = 500;
  model.cpu.write_block = 1'000;
  model.cpu.group_close = kCloseNs;
  return model;
}

RunModel Runs(double device_ns = 0) {
  return [device_ns](const NodeModel& model) { return Latencies(model, device_ns); };
}

TEST(CalibrationTest, CostsBecomeThoseOfTheLiveNode) {
  NodeModel truth = Fitted();
  truth.cpu.read_request *= 2.5;
  truth.cpu.read_block *= 2.5;
  truth.cpu.write_request *= 1.6;
  truth.cpu.write_block *= 1.6;
  truth.cpu.group_close *= 2;
  const auto model = CalibrateCosts(Fitted(), Latencies(truth, 0), Runs());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_NEAR(model->cpu.read_request, truth.cpu.read_request, 1);
  EXPECT_NEAR(model->cpu.read_block, truth.cpu.read_block, 1);
  EXPECT_NEAR(model->cpu.write_block, truth.cpu.write_block, 1);
  EXPECT_NEAR(model->cpu.group_close, truth.cpu.group_close, 10);
}

TEST(CalibrationTest, WhatADeviceTakesIsNoCostOfTheProcessor) {
  constexpr double kDeviceNs = 300'000;
  NodeModel truth = Fitted();
  truth.cpu.write_request *= 2;
  truth.cpu.write_block *= 2;
  const auto model = CalibrateCosts(Fitted(), Latencies(truth, 2 * kDeviceNs), Runs(kDeviceNs));
  ASSERT_TRUE(model.ok()) << model.status();
  // The writes' factor, and not the one that would make up for a slower device.
  EXPECT_NEAR(model->cpu.read_block, 2 * Fitted().cpu.read_block, 1);
  EXPECT_NEAR(model->cpu.write_block, 2 * Fitted().cpu.write_block, 1);
}

TEST(CalibrationTest, NothingToLearnFromLeavesTheCosts) {
  const env::WindowMetrics idle;
  const auto model = CalibrateCosts(Fitted(), idle, Runs());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->cpu.read_block, Fitted().cpu.read_block);
  EXPECT_EQ(model->cpu.write_request, Fitted().cpu.write_request);
  EXPECT_EQ(model->cpu.group_close, Fitted().cpu.group_close);
}

TEST(CalibrationTest, AnAbsurdMeasurementDoesNotMakeAnAbsurdModel) {
  NodeModel truth = Fitted();
  truth.cpu.write_request = 12'000;
  truth.cpu.write_block = 12'000;
  const auto model = CalibrateCosts(Fitted(), Latencies(truth, 0), Runs());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_DOUBLE_EQ(model->cpu.write_block, 6 * Fitted().cpu.write_block);
}

TEST(CalibrationTest, AFailedRunIsTold) {
  const RunModel fails = [](const NodeModel&) -> absl::StatusOr<env::WindowMetrics> {
    return absl::InternalError("no");
  };
  EXPECT_EQ(CalibrateCosts(Fitted(), Latencies(Fitted(), 0), fails).status().code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace ebb::twin
