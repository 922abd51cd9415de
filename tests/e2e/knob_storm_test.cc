// No knob touches durability or correctness: random legal changes ten times a second over the
// control socket while fio verifies everything, illegal ones in between, and SIGKILL between a
// change and its use.
//
//   EBB_KNOB_STORM_S=N   seconds of the storm instead of 60 (./dev soak: 1800)
//   EBB_TEST_SEED=N      the changes of that run again
#include <cstdlib>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/knobs/knobs.h"
#include "tests/e2e/served_node.h"

namespace ebb::testing {
namespace {

using Json = nlohmann::json;
using storage::KnobKind;
using storage::KnobSpec;

constexpr uint64_t kChangeEveryNs = 100 * kNsPerMs;

uint64_t FromEnvironment(const char* name, uint64_t standard) {
  const char* asked = std::getenv(name);
  return asked == nullptr ? standard : std::strtoull(asked, nullptr, 10);
}

uint64_t SeedOfThisRun() {
  const uint64_t seed =
      FromEnvironment("EBB_TEST_SEED", static_cast<uint64_t>(RealClock().WallMs()));
  std::printf("seed: EBB_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

Json ToWire(const KnobSpec& spec, int64_t value) {
  if (spec.kind != KnobKind::kChoice) return value;
  return std::string(spec.choices[static_cast<size_t>(value)]);
}

// Any legal value; memory of the host is not this test's to take.
Json LegalValue(const KnobSpec& spec, Rng& rng) {
  const int64_t max =
      spec.id == storage::KnobId::kReadCacheBytes ? static_cast<int64_t>(64 * kMiB) : spec.max;
  const auto choices = static_cast<uint64_t>((max - spec.min) / spec.step + 1);
  return ToWire(spec, spec.min + static_cast<int64_t>(rng.Below(choices)) * spec.step);
}

Json IllegalValue(const KnobSpec& spec, Rng& rng) {
  switch (rng.Below(4)) {
    case 0:
      return spec.kind == KnobKind::kChoice ? Json("such a thing") : Json(spec.max + spec.step);
    case 1:
      return spec.kind == KnobKind::kChoice ? Json(99) : Json(spec.min - 1);
    case 2:
      return Json::array({1});
    default:
      return 2.5;
  }
}

// One to four knobs at random.
Json RandomChange(Rng& rng) {
  Json change = Json::object();
  const auto table = storage::KnobTable();
  for (uint64_t i = 0; i <= rng.Below(4); ++i) {
    const KnobSpec& spec = table[rng.Below(table.size())];
    change[std::string(spec.name)] = LegalValue(spec, rng);
  }
  return change;
}

absl::StatusOr<Json> State(storage::JsonRpcClient& control) {
  const absl::StatusOr<std::string> state = control.Call("knobs.get");
  if (!state.ok()) return state.status();
  return Json::parse(*state);
}

// Tries a change; with a short lease now and then, so that reverts happen by themselves too.
absl::Status Change(storage::JsonRpcClient& control, const Json& change, Rng& rng, bool may_lease) {
  const absl::StatusOr<Json> state = State(control);
  if (!state.ok()) return state.status();
  Json params = {{"setting", change}, {"version", (*state)["version"]}, {"actor", "knob_storm"}};
  if (may_lease && rng.Chance(0.3)) params["lease_ms"] = 100 + rng.Below(900);
  return control.Call("knobs.set", params.dump()).status();
}

std::vector<std::string> Fio(const ServedNode& node, const std::vector<std::string>& job) {
  std::vector<std::string> arguments = {
      "--name=storm",    "--ioengine=nbd",   "--uri=" + node.uri(), "--thread",
      "--verify=crc32c", "--verify_fatal=1", "--group_reporting"};
  arguments.insert(arguments.end(), job.begin(), job.end());
  return arguments;
}

TEST(KnobStormTest, VerifiesUnderTenChangesASecond) {
  Rng rng(SeedOfThisRun());
  const uint64_t seconds = FromEnvironment("EBB_KNOB_STORM_S", 60);
  const ScratchFolder scratch;
  ServedNode node(scratch.path());
  ASSERT_TRUE(node.Start().ok());
  BackgroundProgram fio(
      "/usr/bin/fio",
      Fio(node, {"--rw=randrw", "--rwmixread=30", "--bsrange=4k-64k", "--size=100M", "--iodepth=8",
                 "--verify_backlog=256", "--time_based", fmt::format("--runtime={}", seconds)}),
      scratch.path() + "/fio.log");

  uint64_t changes = 0;
  uint64_t refusals = 0;
  const uint64_t begin_ns = RealClock().MonotonicNs();
  for (uint64_t tick = 1; fio.IsRunning(); ++tick) {
    if (rng.Chance(0.2)) {
      const auto table = storage::KnobTable();
      const KnobSpec& spec = table[rng.Below(table.size())];
      Json change = RandomChange(rng);
      change[std::string(spec.name)] = IllegalValue(spec, rng);
      const absl::StatusOr<Json> before = State(node.control());
      const absl::Status status = Change(node.control(), change, rng, false);
      ASSERT_TRUE(absl::IsInvalidArgument(status)) << change.dump() << ": " << status;
      ++refusals;
    } else {
      const absl::Status status = Change(node.control(), RandomChange(rng), rng, true);
      // A lease may end between our look and our change: the node says "stale", we look again.
      ASSERT_TRUE(status.ok() || absl::IsAborted(status)) << status;
      if (status.ok()) ++changes;
    }
    RealClock().SleepUntilNs(begin_ns + tick * kChangeEveryNs);
    if (tick % 600 == 0) {
      std::printf("%llu s of %llu, %llu changes\n", static_cast<unsigned long long>(tick / 10),
                  static_cast<unsigned long long>(seconds),
                  static_cast<unsigned long long>(changes));
      std::fflush(stdout);
    }
  }

  EXPECT_EQ(fio.Wait(), 0) << fio.Log();
  EXPECT_GT(changes, 2 * seconds) << "hardly a storm";
  EXPECT_GT(refusals, seconds / 2);
  EXPECT_EQ(node.Terminate(), 0);
  std::printf("%llu changes, %llu refusals\n", static_cast<unsigned long long>(changes),
              static_cast<unsigned long long>(refusals));
}

// Goal: the moment between a change and the first request that it governs is as safe as any, and
// what was acknowledged as the incumbent is the incumbent after the kill.
TEST(KnobStormTest, KillBetweenChangeAndUseLosesNothing) {
  Rng rng(SeedOfThisRun());
  const ScratchFolder scratch;
  ServedNode node(scratch.path());
  ASSERT_TRUE(node.Start().ok());
  const auto rounds = static_cast<int>(FromEnvironment("EBB_KNOB_KILLS", 6));
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    const std::string pattern = fmt::format("--randseed={}", 1000 + round);
    const ProgramResult wrote = RunProgram(
        "/usr/bin/fio", Fio(node, {"--rw=randwrite", "--bs=8k", "--size=24M", "--iodepth=16",
                                   "--do_verify=0", "--end_fsync=1", pattern}));
    ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
    const Json change = RandomChange(rng);
    ASSERT_TRUE(Change(node.control(), change, rng, /*may_lease=*/false).ok());
    RealClock().SleepUntilNs(RealClock().MonotonicNs() + rng.Below(20 * kNsPerMs));

    node.Kill();
    const absl::Status started = node.Start();

    ASSERT_TRUE(started.ok()) << started;
    const absl::StatusOr<Json> state = State(node.control());
    ASSERT_TRUE(state.ok()) << state.status();
    for (const auto& [name, value] : change.items()) {
      EXPECT_EQ((*state)["setting"][name], value) << name << " was acknowledged before the kill";
    }
    const ProgramResult verified =
        RunProgram("/usr/bin/fio", Fio(node, {"--rw=randwrite", "--bs=8k", "--size=24M",
                                              "--iodepth=16", "--verify_only=1", pattern}));
    ASSERT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  }
  EXPECT_EQ(node.Terminate(), 0);
}

}  // namespace
}  // namespace ebb::testing
