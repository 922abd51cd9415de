// A trip condition that comes true has the node back on its incumbent within 200 ms of the node's
// clock, the time to the next check included, and the reading is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "storage-backend/control/knob_controller.h"
#include "tests/storage-backend/control/scratch_dir.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kDeadlineNs = 200 * kNsPerMs;
constexpr uint64_t kCalmNs = 2 * kNsPerS;  // before the load turns bad

struct Case {
  const char* condition;
  TripConditions trips;
  // What a millisecond of the bad load adds to that of a calm one.
  void (*worsen)(TripSample&);
  bool calm_requests_go_on;
};

class TripDeadlineTest : public testing::TestWithParam<Case> {
 protected:
  void Open() {
    KnobControllerOptions options;
    options.state_dir = scratch_.path();
    options.initial.Set(KnobId::kDestageWatermark, 40);
    auto controller = KnobController::Open(
        options,
        [this](const Setting& setting) {
          store_ = setting;
          return absl::OkStatus();
        },
        [this] { return load_; }, clock_);
    ASSERT_TRUE(controller.ok()) << controller.status();
    controller_ = *std::move(controller);
    SetRequest request;
    request.values = {{KnobId::kDestageWatermark, 80}};
    request.version = controller_->version();
    request.lease_ms = 60'000;
    request.trips = GetParam().trips;
    request.actor = "tester";
    ASSERT_TRUE(controller_->Set(request).ok());
    load_.now_ns = clock_.MonotonicNs();
    at_once_.emplace(GetParam().trips, load_);
  }
  // A millisecond of load; a wire that looks each millisecond says when there is something to see.
  void Play(bool bad) {
    clock_.AdvanceNs(kNsPerMs);
    load_.now_ns = clock_.MonotonicNs();
    load_.in_flight_ns_sum += kNsPerMs;
    if (!bad || GetParam().calm_requests_go_on) {
      load_.read.Record(200 * kNsPerUs);
      load_.write.Record(300 * kNsPerUs);
      load_.ops += 2;
    }
    load_.dirty_share += 0.00001;
    if (bad) GetParam().worsen(load_);
    if (!visible_ns_ && at_once_->Observe(load_)) visible_ns_ = load_.now_ns;
  }

  ScratchDir scratch_;
  ManualClock clock_;
  TripSample load_;
  Setting store_;
  std::unique_ptr<KnobController> controller_;
  std::optional<TripWire> at_once_;
  std::optional<uint64_t> visible_ns_;
};

// Method: whatever the moment between two checks at which the load turns bad.
TEST_P(TripDeadlineTest, IncumbentIsInForceInTimeAndTheReadingIsTold) {
  for (uint64_t phase_ms = 0; phase_ms < 100; phase_ms += 7) {
    SCOPED_TRACE(phase_ms);
    visible_ns_ = std::nullopt;
    load_ = {};
    Open();
    const uint64_t begin_ns = clock_.MonotonicNs();
    uint64_t next_check_ns = begin_ns + KnobController::kTickIntervalMs * kNsPerMs;
    while (store_[KnobId::kDestageWatermark] == 80) {
      const uint64_t elapsed_ns = clock_.MonotonicNs() - begin_ns;
      ASSERT_LT(elapsed_ns, 10 * kNsPerS) << "never reverted";
      const bool bad = elapsed_ns >= kCalmNs + phase_ms * kNsPerMs;
      Play(bad);
      if (clock_.MonotonicNs() < next_check_ns) continue;
      controller_->Tick();
      next_check_ns += KnobController::kTickIntervalMs * kNsPerMs;
      if (!bad) {
        ASSERT_EQ(store_[KnobId::kDestageWatermark], 80) << "nothing was wrong yet";
      }
    }

    ASSERT_TRUE(visible_ns_) << "reverted before there was anything to see";
    EXPECT_LE(clock_.MonotonicNs() - *visible_ns_, kDeadlineNs);
    EXPECT_EQ(store_[KnobId::kDestageWatermark], 40);
    const KnobState state = controller_->State();
    EXPECT_FALSE(state.lease);
    ASSERT_TRUE(state.last_revert && state.last_revert->reading);
    EXPECT_EQ(state.last_revert->reading->condition, GetParam().condition);
    EXPECT_THAT(state.last_revert->cause, testing::HasSubstr(GetParam().condition));
    const NodeEvent event =
        controller_->events().After(controller_->events().last_number() - 1, 1).at(0);
    EXPECT_EQ(event.kind, NodeEvent::Kind::kTripped);
    ASSERT_TRUE(event.reading);
    EXPECT_EQ(event.reading->condition, GetParam().condition);
    EXPECT_NE(event.reading->value, event.reading->limit);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Conditions, TripDeadlineTest,
    testing::Values(
        Case{"read_p99_us_max",
             {.read_p99_us_max = 2000},
             [](TripSample& load) { load.read.Record(9 * kNsPerMs); },
             true},
        Case{"write_p99_us_max",
             {.write_p99_us_max = 2000},
             [](TripSample& load) { load.write.Record(9 * kNsPerMs); },
             true},
        Case{"errors_max", {.errors_max = 2}, [](TripSample& load) { ++load.errors; }, true},
        Case{"log_fill_per_s_max",
             {.log_fill_per_s_max = 0.1},
             [](TripSample& load) { load.dirty_share += 0.0005; },
             true},
        Case{"throughput_ops_min", {.throughput_ops_min = 1000}, [](TripSample&) {}, false}),
    [](const auto& test) { return std::string(test.param.condition); });

}  // namespace
}  // namespace ebb::storage
