// `ebb trace` run as a user runs it.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/cli/progress.h"
#include "base/units.h"
#include "tests/base/trace/trace_test_util.h"
#include "tests/support/program.h"

namespace ebb::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kTraces = std::string(EBB_SOURCE_DIR) + "/tests/data/traces/";

ebb::testing::ProgramResult EbbTrace(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "trace");
  return ebb::testing::RunProgram(std::string(EBB_BINARY_DIR) + "/bin/ebb", std::move(arguments),
                                  {});
}

TEST(TraceCommandsTest, InfoTellsTheProfileAsTextAndAsJson) {
  const auto text = EbbTrace({"info", kTraces + "requests.fiu", "--format", "fiu"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("2 reads"), HasSubstr("50.0 % reads"),
                              HasSubstr("0 broken"), HasSubstr("LRU cache")));

  const auto as_json = EbbTrace({"info", kTraces + "requests.fiu", "--format", "fiu", "--json"});
  ASSERT_EQ(as_json.exit_code, 0) << as_json.err;
  const json profile = json::parse(as_json.out);
  EXPECT_EQ(profile["reads"], 2);
  EXPECT_EQ(profile["span_s"], 2.0007);
  EXPECT_EQ(profile["content_blocks"], 2);
  EXPECT_TRUE(profile["compressed_share"].is_null());
  EXPECT_EQ(profile["entries"]["broken"], 0);
  EXPECT_EQ(profile["bursts"].size(), 4U);
  EXPECT_FALSE(profile["miss_ratios"].empty());
}

TEST(TraceCommandsTest, ConvertedTracesHoldTheSameRequests) {
  const trace::ScratchFolder folder;
  const std::string own = folder.File("t.ebbt");
  const std::string iolog = folder.File("t.iolog");

  const auto to_own = EbbTrace({"convert", "--format", "msr", kTraces + "requests.msr", own});
  const auto to_iolog = EbbTrace({"convert", own, iolog, "--file-name", "disk"});

  EXPECT_EQ(to_own.exit_code, 0) << to_own.err;
  EXPECT_THAT(to_own.err, HasSubstr("4 requests"));
  EXPECT_EQ(to_iolog.exit_code, 0) << to_iolog.err;
  EXPECT_EQ(trace::ReadFile(iolog),
            "fio version 3 iolog\n1 disk add\n1 disk open\n1 disk read 4096 8192\n"
            "1501 disk write 1048576 4096\n2000001 disk write 32256 512\n"
            "2000701 disk read 10737418240 65536\n2000701 disk close\n");
}

TEST(TraceCommandsTest, SynthesisedTracesDependOnTheSeedAlone) {
  const trace::ScratchFolder folder;
  auto synth = [&](const std::string& name, const std::string& seed) {
    const auto outcome = EbbTrace({"synth", "--preset", "iometer-database", "--zipf", "0.9",
                                   "--duplicate", "0.2", "--phase", "duration=1s", "--phase",
                                   "duration=1s,read=0.1", "--seed", seed, folder.File(name)});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return trace::ReadFile(folder.File(name));
  };
  const std::string first = synth("a.ebbt", "1");
  EXPECT_EQ(synth("b.ebbt", "1"), first);
  EXPECT_NE(synth("c.ebbt", "2"), first);

  const auto info = EbbTrace({"info", folder.File("a.ebbt"), "--json"});
  const json profile = json::parse(info.out);
  EXPECT_NEAR(profile["read_share"], (0.67 + 0.1) / 2, 0.02);
  EXPECT_NEAR(profile["duplicate_share"], 0.2, 0.02);
  EXPECT_NEAR(profile["span_s"], 2, 0.05);
}

TEST(TraceCommandsTest, WhatIsWrongIsSaidInASentence) {
  const auto uncertain = EbbTrace({"info", kTraces + "requests.mqsim"});
  EXPECT_EQ(uncertain.exit_code, 2);
  EXPECT_THAT(uncertain.err, AllOf(HasSubstr("mqsim"), HasSubstr("disksim")));

  const auto wrong = EbbTrace({"info", kTraces + "requests.mqsim", "--format", "spc"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("4 of 4 entries are broken"));

  const auto absent = EbbTrace({"info", "/no/such/file"});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.err, HasSubstr("/no/such/file"));

  const auto preset = EbbTrace({"synth", "--preset", "x", "/dev/null"});
  EXPECT_EQ(preset.exit_code, 2);
  EXPECT_THAT(preset.err, HasSubstr("iometer-database"));
}

TEST(TraceCommandsTest, FormatsListsAllOfThem) {
  const auto formats = EbbTrace({"formats"});
  EXPECT_EQ(formats.exit_code, 0);
  for (const char* name :
       {"ebbt", "vscsi1", "msr", "spc", "mqsim", "disksim", "blkparse", "blktrace", "iolog", "fiu",
        "alibaba", "tencent", "systor", "oracle", "cachelib"}) {
    EXPECT_THAT(formats.out, HasSubstr(name));
  }
}

TEST(TraceCommandsTest, ProgressSaysHowLongItWillTake) {
  EXPECT_EQ(ProgressText(0.25, 20 * kNsPerS, "5 requests"),
            "25 %, 5 requests, about 1 min 1 s left");
  EXPECT_EQ(ProgressText(0.001, 1, "5 requests"), "0 %, 5 requests");
  EXPECT_EQ(ProgressText(-1, 1, "5 requests"), "5 requests");
}

}  // namespace
}  // namespace ebb::cli
