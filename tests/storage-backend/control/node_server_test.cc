// A node over a volume in memory, talked to over its socket as any client does.
#include "storage-backend/control/node_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/histogram.h"
#include "base/host_memory.h"
#include "base/rng.h"
#include "base/units.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/json_rpc_client.h"
#include "tests/storage-backend/control/fake_volume.h"
#include "tests/storage-backend/control/scratch_dir.h"

namespace ebb::storage {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::HasSubstr;

class NodeServerTest : public testing::Test {
 protected:
  void SetUp() override { Start(); }

  void Start() {
    node_.reset();
    NodeConfig config;
    config.name = "test";
    config.device_class = "disk";
    config.volume_bytes = kMiB;
    config.control_socket = scratch_.File("control.sock");
    config.state_dir = scratch_.File("state");
    config.nbd.socket = scratch_.File("nbd.sock");
    config.groups.resize(1);
    config.groups[0].cache.shape = "nvme";
    NodeServerOptions options;
    options.clock = &clock_;
    options.on_stop = [this] { stop_asked_ = true; };
    options.observer = [this](const StreamRecord& record, std::span<const std::byte> data) {
      observed_ += std::string(1, record.op) + std::to_string(data.size()) + " ";
    };
    auto volume = std::make_unique<FakeVolume>(kMiB);
    volume_ = volume.get();
    auto node = NodeServer::Start(config, std::move(volume), {}, std::move(options));
    ASSERT_TRUE(node.ok()) << node.status();
    node_ = *std::move(node);
    client_ = std::make_unique<JsonRpcClient>(config.control_socket);
  }

  Json Call(const std::string& method, const Json& params = Json::object()) {
    absl::StatusOr<std::string> result = client_->Call(method, params.dump());
    EXPECT_TRUE(result.ok()) << method << ": " << result.status();
    return result.ok() ? Json::parse(*result) : Json();
  }
  absl::Status Refusal(const std::string& method, const Json& params) {
    return client_->Call(method, params.dump()).status();
  }
  std::vector<std::string> Faults(const Json& params) {
    const absl::Status status = Refusal("knobs.set", params);
    EXPECT_EQ(RpcErrorCode(status), -32602) << status;
    return Json::parse(RpcErrorData(status)).at("faults");
  }
  uint64_t version() { return Call("knobs.get")["version"]; }

  ScratchDir scratch_;
  ManualClock clock_;
  std::atomic<bool> stop_asked_ = false;
  std::string observed_;
  FakeVolume* volume_ = nullptr;
  std::unique_ptr<NodeServer> node_;
  std::unique_ptr<JsonRpcClient> client_;
};

TEST_F(NodeServerTest, InfoTellsWhatItIs) {
  const Json info = Call("node.info");
  EXPECT_EQ(info["name"], "test");
  EXPECT_EQ(info["uuid"], "f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
  EXPECT_EQ(info["pid"], getpid());
  EXPECT_EQ(info["volume_bytes"], kMiB);
  EXPECT_EQ(info["shaped"], true);
  EXPECT_EQ(info["device_class"], "disk");
  EXPECT_EQ(info["nbd_uri"], "nbd+unix:///?socket=" + scratch_.File("nbd.sock"));
  EXPECT_GT(info["host_memory_bytes"], 0);
  EXPECT_EQ(info["threads"], 16);
}

TEST_F(NodeServerTest, MetricsCountWhatTheVerbsDid) {
  std::vector<std::byte> data(8192, std::byte{7});
  ASSERT_TRUE(node_->Write(4096, data, false).ok());
  ASSERT_TRUE(node_->Read(4096, data).ok());
  ASSERT_TRUE(node_->Flush().ok());

  volume_->ChangeMetrics([](VolumeMetrics& now) {
    now.devices = {{.name = "cache", .in_flight = 3, .errors = 1, .failing = true}};
  });
  const Json metrics = Call("metrics.get");

  EXPECT_EQ(metrics["ops"]["read"]["ops"], 1);
  EXPECT_EQ(metrics["ops"]["read"]["bytes"], 8192);
  std::vector<std::pair<uint32_t, uint64_t>> buckets = metrics["ops"]["read"]["latency"]["buckets"];
  LatencyHistogram latency;
  ASSERT_TRUE(
      LatencyHistogram::FromSparse(buckets, metrics["ops"]["read"]["latency"]["sum_ns"], latency));
  EXPECT_EQ(latency.count(), 1U);
  EXPECT_EQ(metrics["setting_version"], version());
  EXPECT_GT(metrics["counters"]["busy_cpu_ns"], 0);
  EXPECT_TRUE(metrics["counters"].contains("in_flight_ns_sum"));
  EXPECT_EQ(metrics["gauges"]["draining"], false);
  EXPECT_EQ(metrics["counters"]["unreduced_blocks"], 0);
  EXPECT_EQ(metrics["gauges"]["unreadable_blocks"], 0);
  EXPECT_EQ(metrics["devices"], Json::parse(R"([{"group":1,"name":"cache","in_flight":3,
      "reads":0,"writes":0,"flushes":0,"errors":1,"failing":true}])"));
  EXPECT_EQ(observed_, "W8192 R0 F0 ");
}

TEST_F(NodeServerTest, WhatTheVolumeNoticesBecomesOneEventEach) {
  volume_->AddNotice({VolumeNotice::Kind::kDamage, "scrub: block 7 is damaged"});
  volume_->AddNotice({VolumeNotice::Kind::kStuck, "destage is stuck"});
  volume_->AddNotice({VolumeNotice::Kind::kRecovered, "destage moves again"});
  volume_->AddNotice({VolumeNotice::Kind::kDevice, "device capacity1 fails"});

  std::map<std::string, std::string> told;
  for (int i = 0; i < 600 && told.size() < 4; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    told.clear();
    const Json answer = Call("events.get");
    for (const Json& event : answer["events"]) {
      const std::string kind = event["kind"];
      if (kind == "damage" || kind == "stuck" || kind == "recovered" || kind == "device") {
        EXPECT_TRUE(told.emplace(kind, event["text"]).second) << kind;
      }
    }
  }

  EXPECT_EQ(told["damage"], "scrub: block 7 is damaged");
  EXPECT_EQ(told["stuck"], "destage is stuck");
  EXPECT_EQ(told["recovered"], "destage moves again");
  EXPECT_EQ(told["device"], "device capacity1 fails");
}

TEST_F(NodeServerTest, MetricsComeAsTextToo) {
  std::vector<std::byte> data(4096);
  ASSERT_TRUE(node_->Read(0, data).ok());

  const std::string text = Call("metrics.text")["text"];

  EXPECT_THAT(text, HasSubstr("ebb_requests_total{kind=\"read\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("ebb_node_info{name=\"test\""));
}

TEST_F(NodeServerTest, EpochChangesAtEveryStart) {
  const Json before = Call("metrics.get")["node_epoch"];
  clock_.AdvanceNs(1);
  Start();
  EXPECT_NE(Call("metrics.get")["node_epoch"], before);
}

TEST_F(NodeServerTest, StreamShowsTheRequests) {
  std::vector<std::byte> data(4096);
  ASSERT_TRUE(node_->Write(8192, data, true).ok());
  ASSERT_TRUE(node_->Trim(0, 4096, false).ok());

  const Json stream = Call("stream.get", {{"after", 0}, {"max", 10}});

  ASSERT_EQ(stream["records"].size(), 2U);
  EXPECT_EQ(stream["records"][0][1], "W");
  EXPECT_EQ(stream["records"][0][2], 8192);
  EXPECT_EQ(stream["records"][0][3], 4096);
  EXPECT_EQ(stream["records"][1][1], "T");
  EXPECT_EQ(stream["next"], 3);
  EXPECT_EQ(stream["dropped"], 0);
  EXPECT_EQ(stream["sample_rate"], 1.0);
  EXPECT_THAT(std::string(Refusal("stream.get", {{"max", 10'001}}).message()),
              HasSubstr("max must be an integer from 1 to 10000"));
}

TEST_F(NodeServerTest, StreamTellsTheContentOfWrites) {
  std::vector<std::byte> random(8192);
  Rng rng(1);
  for (std::byte& byte : random) byte = static_cast<std::byte>(rng.Next());
  ASSERT_TRUE(node_->Write(0, random, false).ok());
  ASSERT_TRUE(node_->Write(65'536, random, false).ok());
  ASSERT_TRUE(node_->Write(0, std::vector<std::byte>(4096), false).ok());
  std::vector<std::byte> text(4096, std::byte{'a'});
  text[0] = std::byte{'b'};
  ASSERT_TRUE(node_->Write(0, text, false).ok());
  ASSERT_TRUE(node_->Read(0, text).ok());

  const Json rows = Call("stream.get")["records"];

  ASSERT_EQ(rows.size(), 5U);
  ASSERT_EQ(rows[0].size(), 7U);
  EXPECT_EQ(rows[0][5], rows[1][5]) << "equal content, wherever it is written";
  EXPECT_GT(rows[0][6], 990) << "random bytes do not shrink";
  EXPECT_EQ(rows[2][5], 0) << "zeroes";
  EXPECT_NE(rows[3][5], rows[0][5]);
  EXPECT_LT(rows[3][6], 50);
  EXPECT_EQ(rows[4].size(), 5U) << "a read has no content";
}

TEST_F(NodeServerTest, KnobsAreDescribedWithNarrowedRanges) {
  const Json knobs = Call("knobs.describe")["knobs"];
  ASSERT_EQ(knobs.size(), kKnobCount);
  for (const Json& knob : knobs) {
    if (knob["name"] == "read_cache_bytes") {
      EXPECT_LE(knob["max"].get<uint64_t>(), HostMemoryBytes() / 10);
      EXPECT_EQ(knob["unit"], "B");
    }
    if (knob["name"] == "compression") {
      EXPECT_EQ(knob["choices"], Json({"off", "lz4", "zstd1", "zstd3"}));
      EXPECT_EQ(knob["default"], "lz4");
      EXPECT_EQ(knob["owner"], "operator");
    }
  }
}

TEST_F(NodeServerTest, SetReadsBackAndReachesTheVolume) {
  const uint64_t before = version();
  const Json set = Call("knobs.set", {{"setting", {{"destage_watermark", 70}, {"dedup", "off"}}},
                                      {"version", before},
                                      {"actor", "operator alice"},
                                      {"reason", "trial by hand"}});
  EXPECT_EQ(set["version"], before + 1);
  EXPECT_TRUE(set["lease"].is_null());

  const Json knobs = Call("knobs.get");
  EXPECT_EQ(knobs["setting"]["destage_watermark"], 70);
  EXPECT_EQ(knobs["incumbent"]["dedup"], "off");
  EXPECT_TRUE(knobs["lease"].is_null());
  EXPECT_EQ(volume_->CurrentSetting()[KnobId::kDestageWatermark], 70);
}

TEST_F(NodeServerTest, EveryFaultOfASettingIsNamedAtOnce) {
  const std::vector<std::string> faults =
      Faults({{"setting",
               {{"destage_watermrk", 60},
                {"destage_watermark", 99},
                {"compression", "brotli"},
                {"dedup", 1},
                {"readahead_blocks", 4.5},
                {"flush_group_us", "soon"},
                {"read_cache_bytes", 18446744073709551615U}}},
              {"version", -1},
              {"lease_ms", 5},
              {"trips", {{"read_p99_ms_max", 3}, {"errors_max", -2}}},
              {"colour", "red"}});

  EXPECT_THAT(faults, Contains("there is no knob \"destage_watermrk\": did you mean "
                               "destage_watermark?"));
  EXPECT_THAT(faults, Contains(HasSubstr("destage_watermark must be between 5 % and 90 %")));
  EXPECT_THAT(faults, Contains("compression must be off, lz4, zstd1 or zstd3, not \"brotli\""));
  EXPECT_THAT(faults, Contains("dedup must be off, on or sampled, not 1"));
  EXPECT_THAT(faults, Contains("readahead_blocks must be an integer, not 4.5"));
  EXPECT_THAT(faults, Contains("flush_group_us must be an integer, not \"soon\""));
  EXPECT_THAT(faults, Contains("read_cache_bytes must be an integer, not 18446744073709551615"));
  EXPECT_THAT(faults, Contains(HasSubstr("version must be an integer from 0")));
  EXPECT_THAT(faults, Contains("lease_ms must be an integer from 100 to 3600000, not 5"));
  EXPECT_THAT(faults, Contains(HasSubstr("trips.\"read_p99_ms_max\": did you mean "
                                         "read_p99_us_max?")));
  EXPECT_THAT(faults, Contains(HasSubstr("trips.errors_max must be an integer")));
  EXPECT_THAT(faults, Contains("there is no parameter \"colour\""));
  EXPECT_EQ(faults.size(), 12U);
  EXPECT_EQ(volume_->CurrentSetting(), Setting());
}

TEST_F(NodeServerTest, SetWithoutItsParametersSaysWhatIsMissing) {
  EXPECT_THAT(Faults(Json::object()),
              testing::ElementsAre("setting is missing", "version is missing"));
  EXPECT_THAT(Faults({{"setting", Json::object()}, {"version", version()}}),
              testing::ElementsAre("setting must be an object with at least one knob"));
  EXPECT_THAT(Faults({{"setting", {{"dedup", "off"}}},
                      {"version", version()},
                      {"trips", {{"errors_max", 0}}}}),
              testing::ElementsAre(HasSubstr("trips need a lease_ms")));
}

TEST_F(NodeServerTest, StaleVersionTellsThePresentOne) {
  const absl::Status status =
      Refusal("knobs.set", {{"setting", {{"dedup", "off"}}}, {"version", version() + 5}});
  EXPECT_EQ(RpcErrorCode(status), -32001);
  EXPECT_EQ(Json::parse(RpcErrorData(status))["version"], version());
}

TEST_F(NodeServerTest, LeaseLivesThroughTheProtocol) {
  const Json set = Call("knobs.set", {{"setting", {{"destage_watermark", 80}}},
                                      {"version", version()},
                                      {"lease_ms", 5000},
                                      {"trips", {{"read_p99_us_max", 1000}, {"errors_max", 0}}},
                                      {"actor", "agent test"}});
  const std::string lease = set["lease"];
  const Json state = Call("knobs.get");
  EXPECT_EQ(state["lease"]["id"], lease);
  EXPECT_EQ(state["lease"]["trips"]["read_p99_us_max"], 1000.0);
  EXPECT_EQ(state["incumbent"]["destage_watermark"], 50);

  EXPECT_EQ(Call("knobs.renew", {{"lease", lease}, {"lease_ms", 9000}})["expires_in_ms"], 9000);
  EXPECT_EQ(RpcErrorCode(Refusal("knobs.commit", {{"lease", "no-1"}})), -32002);
  const Json reverted = Call("knobs.revert", {{"lease", lease}, {"reason", "worse"}});
  EXPECT_EQ(reverted["version"], version());
  EXPECT_EQ(volume_->CurrentSetting()[KnobId::kDestageWatermark], 50);
  EXPECT_EQ(Call("knobs.get")["last_revert"]["cause"], "worse");
  EXPECT_EQ(RpcErrorCode(Refusal("knobs.revert", {{"lease", lease}})), -32002);
}

// Goal: the node's own thread reverts, without a call of anyone. Method: a condition that holds
// from the start, then only reads of what the volume runs.
TEST_F(NodeServerTest, WatchdogRevertsByItself) {
  Call("knobs.set", {{"setting", {{"destage_watermark", 80}}},
                     {"version", version()},
                     {"lease_ms", 60'000},
                     {"trips", {{"errors_max", 0}}}});
  volume_->ChangeMetrics([](VolumeMetrics& metrics) { metrics.read.errors = 1; });
  clock_.AdvanceNs(100 * kNsPerMs);

  const uint64_t deadline_ns = RealClock().MonotonicNs() + 20 * kNsPerS;
  while (volume_->CurrentSetting()[KnobId::kDestageWatermark] != 50 &&
         RealClock().MonotonicNs() < deadline_ns) {
    std::this_thread::yield();
  }

  EXPECT_EQ(volume_->CurrentSetting()[KnobId::kDestageWatermark], 50);
  const Json events = Call("events.get", {{"after", 0}, {"max", 100}})["events"];
  EXPECT_EQ(events.back()["kind"], "tripped");
  EXPECT_EQ(events.back()["reading"]["condition"], "errors_max");
  EXPECT_EQ(events.back()["reading"]["value"], 1.0);
}

TEST_F(NodeServerTest, EventsAreNumberedAndPaged) {
  for (int i = 0; i < 3; ++i) {
    Call("knobs.set", {{"setting", {{"destage_watermark", 60 + i}}}, {"version", version()}});
  }
  const Json all = Call("events.get")["events"];
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0]["kind"], "started");
  EXPECT_TRUE(all[0]["lease"].is_null());
  const Json page = Call("events.get", {{"after", all[1]["number"]}, {"max", 1}})["events"];
  ASSERT_EQ(page.size(), 1U);
  EXPECT_EQ(page[0], all[2]);
}

TEST_F(NodeServerTest, DrainStartsTellsAndEnds) {
  volume_->ChangeMetrics([](VolumeMetrics& metrics) { metrics.dirty_bytes = 100 * kBlockBytes; });
  EXPECT_EQ(Call("node.drain")["draining"], false);
  const Json running = Call("node.drain", {{"start", true}});
  EXPECT_EQ(running["draining"], true);
  EXPECT_EQ(running["dirty_bytes"], 100 * kBlockBytes);
  EXPECT_TRUE(running["eta_s"].is_null());

  volume_->SetDrainPaused(false);
  const uint64_t deadline_ns = RealClock().MonotonicNs() + 20 * kNsPerS;
  while (Call("node.drain")["draining"] == true && RealClock().MonotonicNs() < deadline_ns) {
  }

  EXPECT_EQ(Call("node.drain")["dirty_bytes"], 0);
  const Json events = Call("events.get")["events"];
  EXPECT_EQ(events.back()["kind"], "drain");
  EXPECT_THAT(events.back()["text"].get<std::string>(), HasSubstr("drained 400 KiB"));
}

TEST_F(NodeServerTest, CloseEndsARunningDrain) {
  volume_->ChangeMetrics([](VolumeMetrics& metrics) { metrics.dirty_bytes = 100 * kBlockBytes; });
  Call("node.drain", {{"start", true}});
  EXPECT_TRUE(node_->Close().ok());
  EXPECT_TRUE(volume_->closed());
}

TEST_F(NodeServerTest, StopIsAnsweredAndHandedOn) {
  EXPECT_EQ(Call("node.stop"), Json::object());
  EXPECT_TRUE(stop_asked_);
}

TEST_F(NodeServerTest, UnknownParametersAreRefused) {
  EXPECT_THAT(std::string(Refusal("node.info", {{"x", 1}}).message()),
              HasSubstr("there is no parameter \"x\""));
  EXPECT_THAT(std::string(Refusal("node.drain", {{"stat", true}}).message()),
              HasSubstr("did you mean start?"));
  EXPECT_EQ(RpcErrorCode(Refusal("node.drain", {{"start", 1}})), -32602);
}

// Goal: whatever a line holds, it gets one answer that is JSON, and the node runs a legal setting.
// Method: valid requests of every method, with bytes changed, dropped, doubled and swapped.
TEST_F(NodeServerTest, EveryMutatedLineGetsOneAnswer) {
  const std::vector<std::string> seeds = {
      R"({"jsonrpc":"2.0","id":1,"method":"knobs.set","params":{"setting":{"destage_watermark":60,)"
      R"("dedup":"off","compression":"zstd1"},"version":1,"lease_ms":500,"trips":{"errors_max":3,)"
      R"("read_p99_us_max":12.5},"actor":"a","reason":"r"}})",
      R"({"jsonrpc":"2.0","id":"x","method":"knobs.renew","params":{"lease":"1-1","lease_ms":900}})",
      R"({"jsonrpc":"2.0","id":2,"method":"knobs.commit","params":{"lease":"1-1"}})",
      R"({"jsonrpc":"2.0","id":2,"method":"knobs.revert","params":{"lease":"1-1","reason":"\u00e4"}})",
      R"({"jsonrpc":"2.0","id":3,"method":"events.get","params":{"after":0,"max":10}})",
      R"({"jsonrpc":"2.0","id":3,"method":"stream.get","params":{"after":0,"max":10}})",
      R"({"jsonrpc":"2.0","id":4,"method":"metrics.get"})",
      R"({"jsonrpc":"2.0","id":5,"method":"node.drain","params":{"start":false}})"};
  const std::vector<std::string> tokens = {"null", "-1",   "1e999", "18446744073709551616", "[]",
                                           "{}",   "true", "\"\"",  "\"\\ud800\"",          "0.5"};
  Rng rng(20261130);
  absl::StatusOr<ScopedFd> socket = ConnectUnix(scratch_.File("control.sock"));
  ASSERT_TRUE(socket.ok());
  std::string received;
  for (int i = 0; i < 3000; ++i) {
    std::string line = seeds[rng.Below(seeds.size())];
    for (uint64_t edits = rng.Below(4); edits > 0 && !line.empty(); --edits) {
      const size_t at = rng.Below(line.size());
      switch (rng.Below(5)) {
        case 0:
          line[at] = static_cast<char>(rng.Below(256));
          break;
        case 1:
          line.erase(at, 1 + rng.Below(8));
          break;
        case 2:
          line.insert(at, line.substr(rng.Below(line.size()), rng.Below(20)));
          break;
        case 3:
          line.insert(at, tokens[rng.Below(tokens.size())]);
          break;
        default:
          std::swap(line[at], line[rng.Below(line.size())]);
      }
    }
    std::replace(line.begin(), line.end(), '\n', ' ');
    line += '\n';
    ASSERT_EQ(send(socket->get(), line.data(), line.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(line.size()));
    while (received.find('\n') == std::string::npos) {
      std::array<char, 65536> chunk;
      const ssize_t got = recv(socket->get(), chunk.data(), chunk.size(), 0);
      ASSERT_GT(got, 0) << line;
      received.append(chunk.data(), static_cast<size_t>(got));
    }
    const size_t end = received.find('\n');
    const Json reply = Json::parse(received.substr(0, end), nullptr, false);
    ASSERT_TRUE(reply.is_object() && reply.contains("result") != reply.contains("error"))
        << line << received;
    received.erase(0, end + 1);
    ASSERT_TRUE(received.empty()) << "two answers to " << line;
    ASSERT_TRUE(SettingFaults(volume_->CurrentSetting(), KnobLimits()).empty()) << line;
  }
}

TEST_F(NodeServerTest, VerbErrorsReachTheFrontEnd) {
  volume_->SetFail(true);
  std::vector<std::byte> data(4096);
  EXPECT_TRUE(absl::IsDataLoss(node_->Read(0, data)));
}

}  // namespace
}  // namespace ebb::storage
