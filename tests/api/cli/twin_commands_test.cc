// `ebb twin` as a user runs it.
#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/cli/sweep_picture.h"
#include "base/trace/trace_writer.h"
#include "env/twin/twin_environment.h"
#include "tests/support/program.h"

namespace ebb::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

testing::ProgramResult Twin(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "twin");
  return testing::RunProgram(std::string(EBB_BINARY_DIR) + "/bin/ebb", std::move(arguments), {});
}

std::vector<std::string> Small(std::vector<std::string> more) {
  std::vector<std::string> arguments = more;
  for (const char* word : {"--volume-size", "512M", "--cache-size", "64M", "--working-set", "128M",
                           "--rate", "1000", "--duration", "5s", "--capacity-shape", "sata-ssd"}) {
    arguments.emplace_back(word);
  }
  return arguments;
}

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(TwinCommandsTest, RunPrintsWindows) {
  const auto seen = Twin(Small({"run", "--windows", "3", "--json"}));

  ASSERT_EQ(seen.exit_code, 0) << seen.err;
  const auto json = nlohmann::json::parse(seen.out);
  ASSERT_EQ(json["windows"].size(), 3u);
  const double ops = json["windows"][2]["read"]["ops_per_s"].get<double>() +
                     json["windows"][2]["write"]["ops_per_s"].get<double>();
  EXPECT_NEAR(ops, 1'000, 150);
}

TEST(TwinCommandsTest, RunIsTheSameForTheSameSeed) {
  const auto one = Twin(Small({"run", "--windows", "2", "--csv"}));
  const auto two = Twin(Small({"run", "--windows", "2", "--csv"}));

  EXPECT_EQ(one.out, two.out);
  EXPECT_NE(one.out, Twin(Small({"run", "--windows", "2", "--csv", "--seed", "9"})).out);
}

TEST(TwinCommandsTest, RunTakesATrace) {
  const std::string path = ::testing::TempDir() + "twin_commands_test.ebbt";
  auto writer = trace::TraceWriter::Create(path, {.volume_bytes = 64 << 20});
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (uint64_t i = 0; i < 1'000; ++i) {
    trace::TraceRecord record;
    record.time_ns = i * 1'000'000;
    record.offset = i * 37 % 4'096 * 4'096;
    record.bytes = 4'096;
    ASSERT_TRUE((*writer)->Append(record).ok());
  }
  ASSERT_TRUE((*writer)->Close().ok());

  const auto seen = Twin({"run", "--trace", path, "--windows", "1", "--json"});

  ASSERT_EQ(seen.exit_code, 0) << seen.err;
  const auto json = nlohmann::json::parse(seen.out);
  EXPECT_NEAR(json["windows"][0]["read"]["ops_per_s"].get<double>(), 1'000, 20);
}

TEST(TwinCommandsTest, SweepRanksSettingsAndWritesItsFiles) {
  const std::string csv = ::testing::TempDir() + "twin_commands_test.csv";
  const std::string svg = ::testing::TempDir() + "twin_commands_test.svg";

  const auto seen = Twin(Small({"sweep", "--count", "12", "--measure", "2", "--settle", "1",
                                "--csv", csv, "--svg", svg, "--json", "--top", "20"}));

  ASSERT_EQ(seen.exit_code, 0) << seen.err;
  const auto best = nlohmann::json::parse(seen.out)["best"];
  ASSERT_EQ(best.size(), 13u);
  for (size_t i = 1; i < best.size(); ++i) {
    EXPECT_GE(best[i - 1]["index"].get<double>(), best[i]["index"].get<double>());
  }
  const std::string table = ReadFile(csv);
  EXPECT_THAT(table, StartsWith("index,nvme_read_share,"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 14);
  EXPECT_THAT(ReadFile(svg), HasSubstr("destage_watermark"));
  EXPECT_THAT(seen.err, HasSubstr("settings, about"));
}

TEST(TwinCommandsTest, WrongArgumentsAreNamed) {
  const auto knob = Twin(Small({"run", "--set", "destage_watermrk=3"}));
  EXPECT_EQ(knob.exit_code, 2);
  EXPECT_THAT(knob.err, HasSubstr("destage_watermark"));
  EXPECT_EQ(Twin(Small({"run", "--set", "destage_watermark=999"})).exit_code, 2);
  EXPECT_EQ(Twin(Small({"run", "--cache-shape", "tape"})).exit_code, 2);
  EXPECT_NE(Twin({"run", "--trace", "/nonexistent"}).exit_code, 0);
  EXPECT_EQ(Twin({"run", "--working-set", "64G"}).exit_code, 2);
}

TEST(SweepPictureTest, HasAPanelForEachKnobThatMoved) {
  const env::KnobSpace space = twin::TwinKnobSpace(0);
  std::vector<SweepPoint> points(3, {.setting = space.Default(), .index = 100});
  points[1].setting.values[0] = 60;
  points[2].setting.values[4] = 80;
  points[2].index = 140;

  const std::string svg = SweepPicture(space, points, "a < b");

  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_THAT(svg, HasSubstr(space[0].name));
  EXPECT_THAT(svg, HasSubstr(space[4].name));
  EXPECT_THAT(svg, ::testing::Not(HasSubstr(space[1].name)));
  size_t circles = 0;
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) {
    ++circles;
  }
  EXPECT_EQ(circles, 6u);
}

TEST(TwinFitTest, WhatWasMeasuredIsWhatTheTwinRuns) {
  const testing::ScratchFolder scratch;
  const std::string model = scratch.path() + "/node.toml";

  // Flash made twenty times slower.
  const auto fit = Twin({"fit", "--capacity-shape", "sata-ssd:0.05", "--quick", "--out", model});

  ASSERT_EQ(fit.exit_code, 0) << fit.err;
  EXPECT_THAT(fit.err, HasSubstr("fitted from class"));
  EXPECT_THAT(fit.err, HasSubstr("4 KiB read"));
  const std::string text = ReadFile(model);
  EXPECT_THAT(text, HasSubstr("[capacity]\nfamily = \"flash\""));
  const auto p99 = [](const testing::ProgramResult& run) {
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return nlohmann::json::parse(run.out)["windows"][1]["read"]["p99_us"].get<double>();
  };
  std::vector<std::string> plain = {"run",
                                    "--windows",
                                    "2",
                                    "--json",
                                    "--volume-size",
                                    "512M",
                                    "--cache-size",
                                    "64M",
                                    "--working-set",
                                    "256M",
                                    "--rate",
                                    "100",
                                    "--duration",
                                    "5s",
                                    "--set",
                                    "nvme_read_share=0",
                                    "--set",
                                    "read_cache_bytes=0"};
  std::vector<std::string> fitted = plain;
  fitted.insert(fitted.end(), {"--model", model});
  std::vector<std::string> class_wins = fitted;
  class_wins.insert(class_wins.end(), {"--capacity-shape", "sata-ssd"});
  EXPECT_GT(p99(Twin(fitted)), 1'500);
  EXPECT_LT(p99(Twin(class_wins)), 1'000);
}

TEST(TwinFitTest, RefusesWhatCouldDestroyOrSaysNothing) {
  const testing::ScratchFolder scratch;
  const std::string there = scratch.path() + "/there.toml";
  std::ofstream(there) << "precious";
  const std::string device = scratch.path() + "/device.img";
  std::ofstream(device) << std::string(1 << 20, 'x');

  const auto nothing = Twin({"fit", "--out", "-"});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("nothing to be measured"));

  const auto over_file = Twin({"fit", "--capacity-shape", "nvme", "--out", there});
  EXPECT_NE(over_file.exit_code, 0);
  EXPECT_THAT(over_file.err, HasSubstr("--replace"));
  EXPECT_EQ(ReadFile(there), "precious");

  const auto other = Twin({"fit", "--capacity", device, "--overwrite", there, "--out", "-"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("is not what --cache or --capacity measures"));

  const auto foreign = Twin({"fit", "--capacity", device, "--overwrite", device, "--out", "-"});
  EXPECT_NE(foreign.exit_code, 0);
  EXPECT_EQ(ReadFile(device), std::string(1 << 20, 'x'));

  const auto missing = Twin({"fit", "--cache", device + ".not", "--out", "-"});
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.err, HasSubstr("--create"));

  const auto full = Twin({"fit", "--costs", scratch.path(), "--out", "-"});
  EXPECT_NE(full.exit_code, 0);
  EXPECT_THAT(full.err, HasSubstr("not an empty folder"));
  EXPECT_EQ(ReadFile(there), "precious");

  const auto half = Twin({"fit", "--nbd", "nbd://localhost", "--out", "-"});
  EXPECT_EQ(half.exit_code, 2);
  EXPECT_THAT(half.err, HasSubstr("--control"));
}

TEST(TwinFitTest, AFaultOfTheModelHasItsPlace) {
  const testing::ScratchFolder scratch;
  const std::string model = scratch.path() + "/node.toml";
  std::ofstream(model) << "[cpu]\nread_blok = 5\n";

  const auto run = Twin(Small({"run", "--windows", "1", "--model", model}));

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("node.toml:2:"));
  EXPECT_THAT(run.err, HasSubstr("read_block"));
}

}  // namespace
}  // namespace ebb::cli
