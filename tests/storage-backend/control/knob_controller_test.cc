// Candidates, leases and incumbents: by ManualClock, on real files.
#include "storage-backend/control/knob_controller.h"

#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"
#include "tests/storage-backend/control/scratch_dir.h"

namespace ebb::storage {
namespace {

using testing::HasSubstr;

class KnobControllerTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }

  absl::Status TryOpen() {
    controller_.reset();
    KnobControllerOptions options;
    options.state_dir = scratch_.path();
    options.limits.host_memory_bytes = 8 * kGiB;
    options.initial.Set(KnobId::kDestageWatermark, 40);
    options.epoch = ++epoch_;
    absl::StatusOr<std::unique_ptr<KnobController>> controller = KnobController::Open(
        options,
        [this](const Setting& setting) {
          if (store_refuses_) return absl::InternalError("the store is out of order");
          store_ = setting;
          return absl::OkStatus();
        },
        [this] { return sample_; }, clock_);
    if (controller.ok()) controller_ = *std::move(controller);
    return controller.status();
  }
  void Open() { ASSERT_TRUE(TryOpen().ok()); }

  SetRequest Request(KnobValues values, uint64_t lease_ms = 0) {
    SetRequest request;
    request.values = std::move(values);
    request.version = controller_->version();
    request.lease_ms = lease_ms;
    request.actor = "tester";
    return request;
  }
  std::string SetCandidate(int64_t watermark, uint64_t lease_ms, const TripConditions& trips = {}) {
    SetRequest request = Request({{KnobId::kDestageWatermark, watermark}}, lease_ms);
    request.trips = trips;
    const absl::StatusOr<SetResult> result = controller_->Set(request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->lease : "";
  }
  void SetIncumbent(int64_t watermark) {
    ASSERT_TRUE(controller_->Set(Request({{KnobId::kDestageWatermark, watermark}})).ok());
  }
  int64_t watermark() const { return store_[KnobId::kDestageWatermark]; }
  NodeEvent LastEvent() const {
    return controller_->events().After(controller_->events().last_number() - 1, 1).at(0);
  }
  std::string incumbent_path() const { return scratch_.File("incumbent.json"); }
  // A folder in the way of the temporary file: nothing can be persisted.
  void BlockPersistence(bool block) {
    const std::string path = incumbent_path() + ".tmp";
    if (block) {
      ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    } else {
      ASSERT_EQ(rmdir(path.c_str()), 0);
    }
  }

  ScratchDir scratch_;
  ManualClock clock_;
  TripSample sample_;
  Setting store_;
  bool store_refuses_ = false;
  uint64_t epoch_ = 100;
  std::unique_ptr<KnobController> controller_;
};

TEST_F(KnobControllerTest, StartsOnTheConfiguredSetting) {
  EXPECT_EQ(watermark(), 40);
  EXPECT_EQ(LastEvent().kind, NodeEvent::Kind::kStarted);
}

TEST_F(KnobControllerTest, SetWithoutLeaseSurvivesARestart) {
  const uint64_t before = controller_->version();
  SetIncumbent(60);
  EXPECT_EQ(controller_->version(), before + 1);
  EXPECT_EQ(watermark(), 60);

  Open();

  EXPECT_EQ(watermark(), 60);
  EXPECT_GT(controller_->version(), before + 1) << "a version of an earlier run came back";
}

TEST_F(KnobControllerTest, StaleVersionIsRefusedAndNothingChanges) {
  SetRequest request = Request({{KnobId::kDestageWatermark, 70}});
  SetIncumbent(60);

  const absl::Status status = controller_->Set(request).status();

  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_EQ(watermark(), 60);
}

TEST_F(KnobControllerTest, EveryFaultIsNamedAndNothingChanges) {
  const KnobValues values = {{KnobId::kDestageWatermark, 99},
                             {KnobId::kReadCacheBytes, 1024 * static_cast<int64_t>(kMiB)},
                             {KnobId::kCompressionUnitBytes, 5000},
                             {KnobId::kThrottleSoftness, 55}};

  EXPECT_EQ(controller_->Faults(values).size(), 3U);
  const absl::Status status = controller_->Set(Request(values)).status();

  EXPECT_TRUE(absl::IsInvalidArgument(status));
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("destage_watermark"));
  EXPECT_THAT(message, HasSubstr("read_cache_bytes"));
  EXPECT_THAT(message, HasSubstr("compression_unit_bytes"));
  EXPECT_EQ(watermark(), 40);
  EXPECT_EQ(store_[KnobId::kThrottleSoftness], 50);
}

TEST_F(KnobControllerTest, CandidateGoesBackWhenItsLeaseRunsOut) {
  const std::string lease = SetCandidate(80, 5000);
  const uint64_t version = controller_->version();
  EXPECT_EQ(watermark(), 80);
  clock_.AdvanceNs(4999 * kNsPerMs);
  clock_.JumpWallMs(-86'400'000);  // the date may jump, the lease does not
  controller_->Tick();
  EXPECT_EQ(watermark(), 80);
  EXPECT_EQ(controller_->State().lease->expires_in_ms, 1U);

  clock_.AdvanceNs(kNsPerMs);
  controller_->Tick();

  EXPECT_EQ(watermark(), 40);
  EXPECT_EQ(controller_->version(), version + 1);
  EXPECT_EQ(LastEvent().kind, NodeEvent::Kind::kLeaseExpired);
  EXPECT_EQ(LastEvent().lease, lease);
  EXPECT_FALSE(controller_->State().lease);
  EXPECT_EQ(controller_->State().last_revert->lease, lease);
  EXPECT_TRUE(absl::IsNotFound(controller_->Renew(lease, 1000)));
}

TEST_F(KnobControllerTest, RenewExtendsFromNow) {
  const std::string lease = SetCandidate(80, 1000);
  clock_.AdvanceNs(900 * kNsPerMs);
  ASSERT_TRUE(controller_->Renew(lease, 1000).ok());
  clock_.AdvanceNs(900 * kNsPerMs);
  controller_->Tick();
  EXPECT_EQ(watermark(), 80);
  clock_.AdvanceNs(100 * kNsPerMs);
  // No tick between: the call itself sees that the lease is over.
  EXPECT_TRUE(absl::IsNotFound(controller_->Renew(lease, 1000)));
  EXPECT_EQ(watermark(), 40);
}

TEST_F(KnobControllerTest, CommitMakesTheCandidateTheIncumbentDurably) {
  const std::string lease = SetCandidate(80, 1000);
  const absl::StatusOr<uint64_t> version = controller_->Commit(lease);
  ASSERT_TRUE(version.ok());
  EXPECT_EQ(*version, controller_->version());
  clock_.AdvanceNs(10 * kNsPerS);
  controller_->Tick();
  EXPECT_EQ(watermark(), 80);
  EXPECT_EQ(LastEvent().kind, NodeEvent::Kind::kCommitted);
  EXPECT_TRUE(absl::IsNotFound(controller_->Commit(lease).status()));

  Open();
  EXPECT_EQ(watermark(), 80);
}

TEST_F(KnobControllerTest, RevertGoesBackAtOnceAndTellsTheReason) {
  const std::string lease = SetCandidate(80, 1000);

  ASSERT_TRUE(controller_->Revert(lease, "no effect").ok());

  EXPECT_EQ(watermark(), 40);
  EXPECT_EQ(LastEvent().kind, NodeEvent::Kind::kReverted);
  EXPECT_THAT(LastEvent().text, HasSubstr("no effect"));
  EXPECT_EQ(controller_->State().last_revert->cause, "no effect");
  EXPECT_TRUE(absl::IsNotFound(controller_->Revert(lease, "").status()));
}

TEST_F(KnobControllerTest, ForeignSetWinsAndEndsTheLease) {
  const std::string lease = SetCandidate(80, 60'000);
  SetRequest foreign = Request({{KnobId::kThrottleSoftness, 10}});
  foreign.actor = "operator alice";

  ASSERT_TRUE(controller_->Set(foreign).ok());

  EXPECT_TRUE(absl::IsNotFound(controller_->Renew(lease, 1000)));
  EXPECT_TRUE(absl::IsNotFound(controller_->Commit(lease).status()));
  EXPECT_EQ(controller_->State().incumbent[KnobId::kThrottleSoftness], 10);
  const std::vector<NodeEvent> events = controller_->events().After(0, 100);
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events[events.size() - 2].kind, NodeEvent::Kind::kForeignChange);
  EXPECT_EQ(events[events.size() - 2].lease, lease);
  EXPECT_EQ(events.back().kind, NodeEvent::Kind::kApplied);
  EXPECT_THAT(events.back().text, HasSubstr("operator alice"));
}

TEST_F(KnobControllerTest, NextCandidateOfTheSameActorKeepsTheIncumbentAside) {
  const std::string first = SetCandidate(80, 60'000);
  const std::string second = SetCandidate(90, 1000);

  EXPECT_NE(first, second);
  EXPECT_TRUE(absl::IsNotFound(controller_->Renew(first, 1000)));
  clock_.AdvanceNs(kNsPerS);
  controller_->Tick();
  EXPECT_EQ(watermark(), 40);
  for (const NodeEvent& event : controller_->events().After(0, 100)) {
    EXPECT_NE(event.kind, NodeEvent::Kind::kForeignChange);
  }
}

TEST_F(KnobControllerTest, TripConditionRevertsAndLeavesItsReading) {
  const std::string lease = SetCandidate(80, 60'000, {.read_p99_us_max = 1000});
  sample_.read.Record(5 * kNsPerMs, 100);
  clock_.AdvanceNs(100 * kNsPerMs);

  controller_->Tick();

  EXPECT_EQ(watermark(), 40);
  EXPECT_EQ(LastEvent().kind, NodeEvent::Kind::kTripped);
  ASSERT_TRUE(LastEvent().reading);
  EXPECT_EQ(LastEvent().reading->condition, "read_p99_us_max");
  EXPECT_NEAR(LastEvent().reading->value, 5000, 350);
  EXPECT_TRUE(absl::IsNotFound(controller_->Commit(lease).status()));
}

TEST_F(KnobControllerTest, RestartEndsTheTrialOnTheIncumbentAndSaysSo) {
  const std::string lease = SetCandidate(80, 60'000);
  const uint64_t version = controller_->version();

  Open();

  EXPECT_EQ(watermark(), 40);
  EXPECT_GT(controller_->version(), version);
  EXPECT_EQ(controller_->State().last_revert->lease, lease);
  const std::vector<NodeEvent> events = controller_->events().After(0, 100);
  EXPECT_EQ(events[events.size() - 2].kind, NodeEvent::Kind::kReverted);
  EXPECT_EQ(events[events.size() - 2].lease, lease);
  // The next restart has nothing left to tell of it.
  Open();
  const std::vector<NodeEvent> later = controller_->events().After(events.back().number, 100);
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].kind, NodeEvent::Kind::kStarted);
}

TEST_F(KnobControllerTest, SettingThatCannotBeKeptIsUndone) {
  BlockPersistence(true);
  const uint64_t version = controller_->version();

  EXPECT_FALSE(controller_->Set(Request({{KnobId::kDestageWatermark, 60}})).ok());

  EXPECT_EQ(watermark(), 40);
  EXPECT_EQ(controller_->version(), version);
  EXPECT_EQ(controller_->State().incumbent[KnobId::kDestageWatermark], 40);
  BlockPersistence(false);
  SetIncumbent(60);
}

TEST_F(KnobControllerTest, CommitThatCannotBeKeptLeavesTheTrialRunning) {
  const std::string lease = SetCandidate(80, 1000);
  BlockPersistence(true);
  EXPECT_FALSE(controller_->Commit(lease).ok());
  EXPECT_EQ(watermark(), 80);
  clock_.AdvanceNs(kNsPerS);
  controller_->Tick();
  EXPECT_EQ(watermark(), 40);
  BlockPersistence(false);
}

TEST_F(KnobControllerTest, StoreThatRefusesItsIncumbentIsAskedAgain) {
  const std::string lease = SetCandidate(80, 1000);
  store_refuses_ = true;
  clock_.AdvanceNs(kNsPerS);
  controller_->Tick();
  controller_->Tick();
  EXPECT_EQ(watermark(), 80);
  EXPECT_EQ(LastEvent().kind, NodeEvent::Kind::kError);
  EXPECT_FALSE(controller_->Renew(lease, 1000).ok()) << "an overdue lease cannot be renewed";

  store_refuses_ = false;
  controller_->Tick();

  EXPECT_EQ(watermark(), 40);
  EXPECT_EQ(LastEvent().kind, NodeEvent::Kind::kLeaseExpired);
}

TEST_F(KnobControllerTest, SettingThatTheStoreRefusesChangesNothing) {
  store_refuses_ = true;
  const uint64_t version = controller_->version();
  EXPECT_FALSE(controller_->Set(Request({{KnobId::kDestageWatermark, 60}})).ok());
  EXPECT_EQ(controller_->version(), version);
  EXPECT_EQ(controller_->State().setting[KnobId::kDestageWatermark], 40);
}

TEST_F(KnobControllerTest, DamagedRecordIsPutAsideAndTold) {
  SetIncumbent(60);
  std::ofstream(incumbent_path(), std::ios::trunc) << R"({"crc":"00000000","incumbent":{}})";

  Open();

  EXPECT_EQ(watermark(), 40);
  EXPECT_EQ(access((incumbent_path() + ".damaged").c_str(), F_OK), 0);
  const std::vector<NodeEvent> events = controller_->events().After(0, 100);
  EXPECT_EQ(events[events.size() - 2].kind, NodeEvent::Kind::kError);
  EXPECT_THAT(events[events.size() - 2].text, HasSubstr("damaged"));
}

// Goal: the death of the node at either side of each write leaves the old incumbent or the new one,
// and a version above all that was given. Method: a child process makes the change and exits
// without any clean-up inside of the store's apply, or right after the reply.
TEST_F(KnobControllerTest, KilledBetweenApplyAndPersistStartsOnTheOldIncumbent) {
  SetIncumbent(60);
  const uint64_t version = controller_->version();
  controller_.reset();
  const pid_t child = fork();
  if (child == 0) {
    if (!TryOpen().ok()) _exit(3);
    KnobControllerOptions options;
    options.state_dir = scratch_.path();
    bool armed = false;
    auto doomed = KnobController::Open(
        options,
        [&armed](const Setting&) {
          if (armed) _exit(7);
          return absl::OkStatus();
        },
        [] { return TripSample(); }, clock_);
    if (!doomed.ok()) _exit(4);
    armed = true;
    SetRequest request;
    request.values = {{KnobId::kDestageWatermark, 90}};
    request.version = (*doomed)->version();
    (void)(*doomed)->Set(request);
    _exit(5);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  ASSERT_EQ(WEXITSTATUS(state), 7);

  Open();

  EXPECT_EQ(watermark(), 60);
  EXPECT_GT(controller_->version(), version);
}

TEST_F(KnobControllerTest, KilledAfterTheReplyStartsOnTheNewIncumbent) {
  controller_.reset();
  const pid_t child = fork();
  if (child == 0) {
    if (!TryOpen().ok()) _exit(3);
    _exit(controller_->Set(Request({{KnobId::kDestageWatermark, 90}})).ok() ? 7 : 5);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  ASSERT_EQ(WEXITSTATUS(state), 7);

  Open();

  EXPECT_EQ(watermark(), 90);
}

}  // namespace
}  // namespace ebb::storage
