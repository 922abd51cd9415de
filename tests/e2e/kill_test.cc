// kill -9 at any moment loses nothing that a completed flush or FUA write covered.
//
// What it cannot show: a missing fdatasync, because the kernel outlives a killed process. The crash
// tests over a simulated disk show that (tests/storage-backend).
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libnbd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/served_node.h"
#include "tests/e2e/version_model.h"

namespace ebb::testing {
namespace {

using Json = nlohmann::json;

constexpr int kStandardKills = 25;
constexpr size_t kInFlightMax = 12;
constexpr uint64_t kRequestBlocksMax = 32;

uint64_t SeedOfThisRun() {
  const char* given = std::getenv("EBB_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10)
                                         : static_cast<uint64_t>(RealClock().WallMs());
  std::printf("seed: EBB_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// EBB_KILLS=N makes N of them (./dev soak: 500).
int KillCount() {
  const char* asked = std::getenv("EBB_KILLS");
  return asked == nullptr ? kStandardKills : std::atoi(asked);
}

// Sends random requests over two connections, several in flight, and keeps the model up to date
// with what was sent, acknowledged and flushed. Requests in flight never overlap, so that their
// order is known.
class Writer {
 public:
  Writer(const std::string& uri, VersionModel& model, Rng& rng) : model_(model), rng_(rng) {
    for (int i = 0; i < 2; ++i) connections_.push_back(ConnectNbd(uri));
  }

  bool connected() const {
    return std::all_of(connections_.begin(), connections_.end(),
                       [](const NbdHandle& handle) { return handle != nullptr; });
  }

  // One more request on its way, or some answers taken in; false once a connection is gone.
  bool Step() {
    if (requests_.size() < kInFlightMax) return SendOne();
    return Reap();
  }

  uint64_t flushes_completed() const { return flushes_completed_; }

 private:
  enum class Kind { kWrite, kZero, kTrim, kFlush };
  struct Request {
    nbd_handle* connection = nullptr;
    int64_t cookie = 0;
    Kind kind = Kind::kWrite;
    uint64_t first = 0;
    uint64_t count = 0;
    uint64_t version = 0;
    bool fua = false;
    std::vector<std::byte> data;
    std::vector<uint64_t> covered;  // of a flush
  };

  bool Overlaps(uint64_t first, uint64_t count) const {
    return std::any_of(requests_.begin(), requests_.end(), [&](const auto& request) {
      return first < request->first + request->count && request->first < first + count;
    });
  }

  bool SendOne() {
    auto request = std::make_unique<Request>();
    request->connection = connections_[rng_.Below(connections_.size())].get();
    if (rng_.Chance(0.02)) {
      request->kind = Kind::kFlush;
      // Acknowledged on either connection: a flush on one covers both.
      request->covered = model_.AcknowledgedVersions();
    } else {
      request->count = 1 + rng_.Below(rng_.Chance(0.8) ? 4 : kRequestBlocksMax);
      // Half of all requests go to a sixteenth of the volume: overwrites in the log.
      const uint64_t span = rng_.Chance(0.5) ? model_.blocks() / 16 : model_.blocks();
      request->first = rng_.Below(span - request->count);
      if (Overlaps(request->first, request->count)) return true;
      request->kind = rng_.Chance(0.9)   ? Kind::kWrite
                      : rng_.Chance(0.5) ? Kind::kZero
                                         : Kind::kTrim;
      request->fua = rng_.Chance(0.01);
      request->version = model_.Send(request->first, request->count, request->kind != Kind::kWrite);
    }
    request->cookie = Submit(*request);
    const bool sent = request->cookie >= 0;
    requests_.push_back(std::move(request));
    return sent;
  }

  int64_t Submit(Request& request) {
    const uint64_t offset = request.first * kModelBlockBytes;
    const uint64_t bytes = request.count * kModelBlockBytes;
    const uint32_t flags = request.fua ? LIBNBD_CMD_FLAG_FUA : 0;
    switch (request.kind) {
      case Kind::kFlush:
        return nbd_aio_flush(request.connection, NBD_NULL_COMPLETION, 0);
      case Kind::kZero:
        return nbd_aio_zero(request.connection, bytes, offset, NBD_NULL_COMPLETION, flags);
      case Kind::kTrim:
        return nbd_aio_trim(request.connection, bytes, offset, NBD_NULL_COMPLETION, flags);
      case Kind::kWrite:
        break;
    }
    request.data.resize(bytes);
    for (uint64_t i = 0; i < request.count; ++i) {
      VersionModel::Fill(request.first + i, request.version,
                         std::span(request.data).subspan(i * kModelBlockBytes, kModelBlockBytes));
    }
    return nbd_aio_pwrite(request.connection, request.data.data(), bytes, offset,
                          NBD_NULL_COMPLETION, flags);
  }

  bool Reap() {
    bool alive = true;
    for (const NbdHandle& connection : connections_) {
      if (nbd_poll(connection.get(), 1) < 0) alive = false;
    }
    for (size_t i = 0; i < requests_.size();) {
      const Request& request = *requests_[i];
      const int done =
          nbd_aio_command_completed(request.connection, static_cast<uint64_t>(request.cookie));
      if (done < 0) alive = false;
      if (done == 1) {
        Complete(request);
        requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    return alive;
  }

  void Complete(const Request& request) {
    if (request.kind == Kind::kFlush) {
      model_.Flushed(request.covered);
      ++flushes_completed_;
    } else {
      // A trim promises zeroes only on a store that says so; this one does (docs/formats.md).
      model_.Acknowledge(request.first, request.count, request.version, request.fua);
    }
  }

  VersionModel& model_;
  Rng& rng_;
  std::vector<NbdHandle> connections_;
  std::vector<std::unique_ptr<Request>> requests_;
  uint64_t flushes_completed_ = 0;
};

// Reads every block and says the first faults; empty: all is legal.
std::string CheckAll(const std::string& uri, VersionModel& model) {
  const NbdHandle handle = ConnectNbd(uri);
  if (handle == nullptr) return fmt::format("cannot connect: {}", nbd_get_error());
  std::string faults;
  int fault_count = 0;
  std::vector<std::byte> chunk(256 * kModelBlockBytes);
  for (uint64_t first = 0; first < model.blocks(); first += 256) {
    if (nbd_pread(handle.get(), chunk.data(), chunk.size(), first * kModelBlockBytes, 0) != 0) {
      return fmt::format("read at block {}: {}", first, nbd_get_error());
    }
    for (uint64_t i = 0; i < 256; ++i) {
      const std::string fault = model.CheckAndAdopt(
          first + i, std::span(chunk).subspan(i * kModelBlockBytes, kModelBlockBytes));
      if (!fault.empty() && ++fault_count <= 5) faults += fault + "\n";
    }
  }
  return fault_count == 0 ? "" : fmt::format("{} faults, the first:\n{}", fault_count, faults);
}

// Another legal setting each time, so that recovery meets logs and units written by all of them.
void ChangeKnobs(storage::JsonRpcClient& control, Rng& rng) {
  const absl::StatusOr<std::string> state = control.Call("knobs.get");
  ASSERT_TRUE(state.ok()) << state.status();
  const std::vector<std::string> codecs = {"off", "lz4", "zstd1", "zstd3"};
  const std::vector<std::string> dedup = {"off", "on", "sampled"};
  const Json params = {{"setting",
                        {{"compression", codecs[rng.Below(codecs.size())]},
                         {"dedup", dedup[rng.Below(dedup.size())]},
                         {"nvme_read_share", 5 * rng.Below(15)},
                         {"destage_watermark", 5 + rng.Below(80)},
                         {"destage_parallelism", 1 + rng.Below(8)},
                         {"flush_group_us", 50 * rng.Below(20)}}},
                       {"version", Json::parse(*state)["version"]},
                       {"actor", "kill_test"}};
  const absl::StatusOr<std::string> set = control.Call("knobs.set", params.dump());
  ASSERT_TRUE(set.ok()) << set.status();
}

TEST(KillTest, KillsLoseNothingThatAFlushCovered) {
  const int kills = KillCount();
  const uint64_t seed = SeedOfThisRun();
  Rng rng(seed);
  const ScratchFolder scratch;
  ServedNode node(scratch.path());
  VersionModel model(node.config().volume_bytes / kModelBlockBytes);
  ASSERT_TRUE(node.Start().ok());
  uint64_t flushes = 0;
  for (int kill = 0; kill < kills; ++kill) {
    ChangeKnobs(node.control(), rng);
    Writer writer(node.uri(), model, rng);
    ASSERT_TRUE(writer.connected()) << nbd_get_error();
    const uint64_t steps = 100 + rng.Below(4000);
    for (uint64_t step = 0; step < steps; ++step) ASSERT_TRUE(writer.Step()) << nbd_get_error();
    // With requests on their way, at a moment that has nothing to do with the client's steps.
    RealClock().SleepUntilNs(RealClock().MonotonicNs() + rng.Below(3 * kNsPerMs));

    node.Kill();
    flushes += writer.flushes_completed();
    const absl::Status started = node.Start();

    ASSERT_TRUE(started.ok()) << "kill " << kill << ", seed " << seed << ": " << started;
    const std::string faults = CheckAll(node.uri(), model);
    ASSERT_EQ(faults, "") << "kill " << kill << ", seed " << seed;
    if ((kill + 1) % 5 == 0) {
      std::printf("%d of %d kills survived\n", kill + 1, kills);
      std::fflush(stdout);
    }
  }
  EXPECT_EQ(node.Terminate(), 0);
  std::printf(
      "%d kills, %llu flushes completed, %llu times a block had more than one legal "
      "version\n",
      kills, static_cast<unsigned long long>(flushes),
      static_cast<unsigned long long>(model.ambiguous_blocks()));
  EXPECT_GT(flushes, static_cast<uint64_t>(5 * kills));
  EXPECT_GT(model.ambiguous_blocks(), static_cast<uint64_t>(50 * kills)) << "nothing was at stake";
}

// Goal: prove that the test above can fail. Method: the same writer over a memory disk, which
// forgets everything when it is killed.
TEST(KillTest, NoticesAStoreThatForgets) {
  Rng rng(SeedOfThisRun());
  const ScratchFolder scratch;
  const std::string socket = scratch.path() + "/nbd.sock";
  const std::string uri = "nbd+unix:///?socket=" + socket;
  const auto serve = [&] {
    std::remove(socket.c_str());
    return std::make_unique<BackgroundProgram>(
        "/usr/bin/nbdkit",
        std::vector<std::string>{"--foreground", "--exit-with-parent", "--unix", socket, "memory",
                                 "64M"},
        scratch.path() + "/nbdkit.log");
  };
  const auto connect = [&] {
    for (int i = 0; i < 500 && ConnectNbd(uri) == nullptr; ++i) {
      RealClock().SleepUntilNs(RealClock().MonotonicNs() + 10 * kNsPerMs);
    }
  };
  VersionModel model(64 * kMiB / kModelBlockBytes);
  std::unique_ptr<BackgroundProgram> disk = serve();
  connect();
  {
    Writer writer(uri, model, rng);
    ASSERT_TRUE(writer.connected());
    while (writer.flushes_completed() < 10) ASSERT_TRUE(writer.Step());
  }
  ASSERT_TRUE(disk->IsRunning());
  disk->Signal(SIGKILL);
  disk->Wait();
  disk = serve();
  connect();

  EXPECT_THAT(CheckAll(uri, model), ::testing::HasSubstr("shows zeroes, but versions from"));
}

std::vector<std::byte> BlockOf(uint64_t block, uint64_t version) {
  std::vector<std::byte> content(kModelBlockBytes);
  if (version > 0) VersionModel::Fill(block, version, content);
  return content;
}

TEST(VersionModelTest, LegalIsFromTheLastDurableToTheLastSent) {
  VersionModel model(4);
  const uint64_t one = model.Send(0, 2, false);
  model.Acknowledge(0, 2, one, false);
  const std::vector<uint64_t> covered = model.AcknowledgedVersions();
  const uint64_t two = model.Send(0, 1, false);
  model.Acknowledge(0, 1, two, false);
  model.Flushed(covered);

  VersionModel lost = model;
  EXPECT_NE(lost.CheckAndAdopt(0, BlockOf(0, 0)), "") << "a flushed block came back as zeroes";
  VersionModel kept = model;
  EXPECT_EQ(kept.CheckAndAdopt(0, BlockOf(0, one)), "");
  EXPECT_NE(kept.CheckAndAdopt(0, BlockOf(0, two)), "") << "what was seen must stay";
  EXPECT_EQ(model.CheckAndAdopt(0, BlockOf(0, two)), "");
  EXPECT_NE(model.CheckAndAdopt(1, BlockOf(0, one)), "") << "a block in the wrong place";
  std::vector<std::byte> torn = BlockOf(1, one);
  torn[2000] ^= std::byte{1};
  EXPECT_NE(model.CheckAndAdopt(1, torn), "") << "a torn block";
  EXPECT_EQ(model.CheckAndAdopt(2, BlockOf(2, 0)), "") << "never written";
}

TEST(VersionModelTest, FuaIsDurableAtOnceAndZeroesAreAVersion) {
  VersionModel model(1);
  const uint64_t one = model.Send(0, 1, false);
  model.Acknowledge(0, 1, one, /*fua=*/true);
  VersionModel before = model;
  EXPECT_NE(before.CheckAndAdopt(0, BlockOf(0, 0)), "");
  model.Send(0, 1, /*zeroes=*/true);
  EXPECT_EQ(model.CheckAndAdopt(0, BlockOf(0, 0)), "");
}

}  // namespace
}  // namespace ebb::testing
