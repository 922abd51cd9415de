// A node's front end (server, sampler, socket) over a real volume, asked by NodeEnvironment: the
// same load under settings of very different speed is described alike. Time is the test's.
#include <cmath>
#include <memory>

#include "base/trace/trace_content.h"
#include "base/units.h"
#include "env/node/node_environment.h"
#include "env/trace/synth.h"
#include "gtest/gtest.h"
#include "storage-backend/control/node_server.h"
#include "tests/storage-backend/control/scratch_dir.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::env {
namespace {

using storage::KnobId;
using storage::Setting;

constexpr uint64_t kVolumeBytes = 32 * kMiB;

// Hands everything on; requests take the time that the setting's read cache leaves them.
class TimedVolume final : public storage::Volume {
 public:
  TimedVolume(storage::Volume& volume, ManualClock& clock, uint64_t slow_ns)
      : volume_(volume), clock_(clock), slow_ns_(slow_ns) {}

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override {
    return Timed(volume_.Read(offset, out));
  }
  absl::Status Write(uint64_t offset, std::span<const std::byte> in, bool fua) override {
    return Timed(volume_.Write(offset, in, fua));
  }
  absl::Status WriteZeroes(uint64_t offset, uint64_t bytes, bool fua) override {
    return volume_.WriteZeroes(offset, bytes, fua);
  }
  absl::Status Trim(uint64_t offset, uint64_t bytes, bool fua) override {
    return volume_.Trim(offset, bytes, fua);
  }
  absl::Status Flush() override { return volume_.Flush(); }
  absl::Status Apply(const Setting& setting) override { return volume_.Apply(setting); }
  Setting CurrentSetting() const override { return volume_.CurrentSetting(); }
  storage::VolumeMetrics Metrics() override { return volume_.Metrics(); }
  absl::Status Drain(const std::function<bool(uint64_t)>& progress) override {
    return volume_.Drain(progress);
  }
  absl::StatusOr<bool> RunBackgroundStep() override { return volume_.RunBackgroundStep(); }
  absl::Status Close() override { return volume_.Close(); }
  uint64_t volume_bytes() const override { return volume_.volume_bytes(); }
  std::string Describe() const override { return volume_.Describe(); }
  std::string uuid() const override { return volume_.uuid(); }

 private:
  absl::Status Timed(absl::Status status) {
    const bool slow = volume_.CurrentSetting()[KnobId::kReadCacheBytes] == 0;
    clock_.AdvanceNs(slow ? slow_ns_ : slow_ns_ / 8);
    return status;
  }

  storage::Volume& volume_;
  ManualClock& clock_;
  const uint64_t slow_ns_;
};

class LiveNode {
 public:
  LiveNode(bool slow, uint64_t slow_ns, uint64_t window_ns)
      : window_ns_(window_ns),
        store_({.volume_bytes = kVolumeBytes,
                .cache_bytes = (2 + 16 * 1024) * 4096,
                .capacity_bytes = 64 * kMiB},
               clock_) {
    EXPECT_TRUE(store_.Open().ok());
    Setting setting = store_.volume().CurrentSetting();
    setting.Set(KnobId::kReadCacheBytes, slow ? 0 : static_cast<int64_t>(kMiB));
    EXPECT_TRUE(store_.volume().Apply(setting).ok());
    storage::NodeConfig config;
    config.name = "live";
    config.device_class = "disk";
    config.volume_bytes = kVolumeBytes;
    config.control_socket = scratch_.File("control.sock");
    config.state_dir = scratch_.File("state");
    config.nbd.socket = scratch_.File("nbd.sock");
    config.groups.resize(1);
    config.initial = setting;
    storage::NodeServerOptions options;
    options.clock = &clock_;
    auto server = storage::NodeServer::Start(
        config, std::make_unique<TimedVolume>(store_.volume(), clock_, slow_ns), {},
        std::move(options));
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto environment = NodeEnvironment::Connect(
        {.socket_path = config.control_socket, .window_ns = window_ns}, clock_);
    EXPECT_TRUE(environment.ok()) << environment.status();
    environment_ = *std::move(environment);
    window_end_ns_ = clock_.MonotonicNs() + window_ns_;
  }

  // The load at its own times, or (`waits`) by one client who asks when the last answer came.
  WorkloadDescriptor Run(const SynthPhase& load, bool waits) {
    auto source = MakeSynthSource({.seed = 5, .phases = {load}});
    EXPECT_TRUE(source.ok()) << source.status();
    const uint64_t begin_ns = clock_.MonotonicNs();
    trace::TraceRecord record;
    while (*(*source)->Next(&record)) {
      const uint64_t at_ns = waits ? clock_.MonotonicNs() + 50'000 : begin_ns + record.time_ns;
      while (at_ns >= window_end_ns_) Observe();
      if (at_ns > clock_.MonotonicNs()) clock_.SleepUntilNs(at_ns);
      Serve(record);
    }
    return last_;  // of the last whole window
  }

 private:
  void Serve(const trace::TraceRecord& record) {
    data_.resize(record.bytes);
    absl::Status status;
    if (record.op == trace::TraceOp::kRead) {
      status = server_->Read(record.offset, data_);
    } else {
      trace::MakeContent(record.offset, record.fingerprints, data_);
      status = server_->Write(record.offset, data_, false);
    }
    EXPECT_TRUE(status.ok()) << status;
  }
  void Observe() {
    const absl::StatusOr<Observation> seen = environment_->Observe();
    ASSERT_TRUE(seen.ok()) << seen.status();
    EXPECT_TRUE(seen->valid) << seen->void_reason;
    last_ = seen->descriptor;
    window_end_ns_ = seen->monotonic_ns + window_ns_;
  }

  const uint64_t window_ns_;
  storage::ScratchDir scratch_;
  ManualClock clock_;
  storage::TestNode store_;
  std::unique_ptr<storage::NodeServer> server_;
  std::unique_ptr<NodeEnvironment> environment_;
  std::vector<std::byte> data_;
  uint64_t window_end_ns_ = 0;
  WorkloadDescriptor last_;
};

SynthPhase Load(uint64_t seconds) {
  SynthPhase load;
  load.duration_ns = seconds * kNsPerS + kNsPerS / 2;
  load.ops_per_s = 400;
  load.sizes = {{4096, 3}, {16'384, 1}};
  load.read_share = 0.6;
  load.random_share = 0.8;
  load.working_set_bytes = 16 * kMiB;
  load.zipf_skew = 0.8;
  load.duplicate_share = 0.4;
  load.compressible_share = 0.5;
  return load;
}

void ExpectNear(const WorkloadDescriptor& a, const WorkloadDescriptor& b, double tolerance) {
  EXPECT_NEAR(a.read_share, b.read_share, tolerance);
  EXPECT_NEAR(a.sequential_share, b.sequential_share, tolerance);
  EXPECT_NEAR(a.working_set_bytes, b.working_set_bytes, 2 * tolerance * a.working_set_bytes);
  EXPECT_NEAR(a.duplicate_share, b.duplicate_share, tolerance);
  EXPECT_NEAR(a.compressible_share, b.compressible_share, tolerance);
  for (size_t i = 0; i < WorkloadDescriptor::kSizeClasses; ++i) {
    EXPECT_NEAR(a.read_sizes[i], b.read_sizes[i], tolerance) << i;
    EXPECT_NEAR(a.write_sizes[i], b.write_sizes[i], tolerance) << i;
  }
  for (size_t i = 0; i < WorkloadDescriptor::kCurvePoints; ++i) {
    EXPECT_NEAR(a.miss_ratios[i], b.miss_ratios[i], tolerance) << i;
    EXPECT_NEAR(a.overwrite_shares[i], b.overwrite_shares[i], tolerance) << i;
  }
}

TEST(LiveDescriptorTest, ClientsWhoKeepTheirPaceAreDescribedAlike) {
  const WorkloadDescriptor fast = LiveNode(false, 400'000, kNsPerS).Run(Load(10), false);
  const WorkloadDescriptor slow = LiveNode(true, 400'000, kNsPerS).Run(Load(10), false);

  EXPECT_NEAR(fast.offered_ops_per_s, 400, 80);
  EXPECT_NEAR(slow.offered_ops_per_s, fast.offered_ops_per_s, 5);
  EXPECT_NEAR(slow.burstiness, fast.burstiness, 0.1 + 0.1 * fast.burstiness);
  ExpectNear(fast, slow, 0.02);
  // And rightly so.
  EXPECT_NEAR(fast.duplicate_share, 0.3, 0.1) << "of 0.4: only first blocks are looked at";
  EXPECT_NEAR(fast.compressible_share, 0.5 * 0.66, 0.08);
  EXPECT_NEAR(fast.write_sizes[1], 0.25, 0.1);
  EXPECT_LT(fast.miss_ratios[2], 0.6) << "the working set's size: only first reads miss";
  EXPECT_GT(fast.overwrite_shares[2], 0.3);
}

TEST(LiveDescriptorTest, AClientWhoWaitsIsDescribedAlike) {
  // 1.3 and 10 ms: windows of 3,000 and 400 requests.
  constexpr uint64_t kWindowNs = 4 * kNsPerS;
  const WorkloadDescriptor fast = LiveNode(false, 10'000'000, kWindowNs).Run(Load(40), true);
  const WorkloadDescriptor slow = LiveNode(true, 10'000'000, kWindowNs).Run(Load(40), true);

  EXPECT_EQ(fast.offered_ops_per_s, 0);
  EXPECT_EQ(slow.offered_ops_per_s, 0);
  EXPECT_NEAR(fast.mean_in_flight, 1, 0.1);
  EXPECT_NEAR(slow.mean_in_flight, 1, 0.1);
  // The last windows hold other requests, and an eighth as many.
  ExpectNear(fast, slow, 0.12);
}

}  // namespace
}  // namespace ebb::env
