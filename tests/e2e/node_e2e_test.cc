// A node as its operator meets it: `ebb node ...`, standard NBD clients, and what goes wrong.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libnbd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/trace/trace_reader.h"
#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/served_node.h"

namespace ebb::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kEbb = std::string(EBB_BINARY_DIR) + "/bin/ebb";

std::string FileContent(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool Eventually(const std::function<bool()>& holds) {
  const uint64_t deadline_ns = RealClock().MonotonicNs() + 30 * kNsPerS;
  while (RealClock().MonotonicNs() < deadline_ns) {
    if (holds()) return true;
    RealClock().SleepUntilNs(RealClock().MonotonicNs() + 10 * kNsPerMs);
  }
  return false;
}

class NodeCliTest : public ::testing::Test {
 protected:
  ~NodeCliTest() override {
    for (const pid_t pid : started_) {
      if (kill(pid, SIGKILL) == 0) Eventually([&] { return kill(pid, 0) != 0; });
    }
  }

  std::string dir() const { return scratch_.path() + "/alpha"; }
  std::string uri() const { return "nbd+unix:///?socket=" + dir() + "/nbd.sock"; }

  ProgramResult Node(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "node");
    arguments.push_back("--json");
    return RunProgram(kEbb, std::move(arguments));
  }
  ProgramResult Start(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"start", "--dir", dir()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ProgramResult result = Node(arguments);
    const Json answer = Json::parse(result.out, nullptr, false);
    if (answer.is_object()) started_.push_back(answer.value("pid", 0));
    return result;
  }
  ProgramResult StartNew() {
    return Start({"--cache-size", "64M", "--capacity-size", "256M", "--capacity-count", "2",
                  "--volume-size", "128M"});
  }
  void Stop() {
    const ProgramResult stop = Node({"stop", "--dir", dir()});
    ASSERT_EQ(stop.exit_code, 0) << stop.err;
  }
  ProgramResult Fio(std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "--name=job", "--ioengine=nbd", "--uri=" + uri(), "--rw=randwrite",  "--bs=4k",
        "--size=32M", "--iodepth=16",   "--randseed=7",   "--verify=crc32c", "--output=/dev/null"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunProgram("/usr/bin/fio", std::move(arguments));
  }

  ScratchFolder scratch_;
  std::vector<pid_t> started_;
};

TEST_F(NodeCliTest, LifeOfANode) {
  const ProgramResult start = StartNew();
  ASSERT_EQ(start.exit_code, 0) << start.err;
  EXPECT_EQ(Json::parse(start.out)["nbd_uri"], uri());

  // Without --no-content it prints what file(1) says of the data, or garbage where that is missing.
  const ProgramResult info = RunProgram("/usr/bin/nbdinfo", {"--no-content", "--json", uri()});
  const Json shown = Json::parse(info.out)["exports"][0];
  for (const char* feature : {"can_fua", "can_flush", "can_multi_conn", "can_trim", "can_zero"}) {
    EXPECT_EQ(shown[feature], true) << feature;
  }
  EXPECT_EQ(shown["export-size"], 128 * kMiB);

  const std::string image = scratch_.path() + "/image";
  {
    Rng rng(3);
    std::ofstream file(image, std::ios::binary);
    for (int i = 0; i < 3'000'000; ++i) {
      const uint64_t word = rng.Next() >> (i % 40);
      file.write(reinterpret_cast<const char*>(&word), sizeof word);
    }
  }
  const ProgramResult copy = RunProgram("/usr/bin/nbdcopy", {"--flush", image, uri()});
  ASSERT_EQ(copy.exit_code, 0) << copy.err;
  Stop();
  EXPECT_FALSE(std::filesystem::exists(dir() + "/control.sock"));

  ASSERT_EQ(Start().exit_code, 0);
  const std::string back = scratch_.path() + "/back";
  ASSERT_EQ(RunProgram("/usr/bin/nbdcopy", {uri(), back}).exit_code, 0);
  const std::string content = FileContent(back);
  ASSERT_EQ(content.size(), 128 * kMiB);
  EXPECT_TRUE(content.substr(0, 24'000'000) == FileContent(image));
  EXPECT_EQ(content.find_first_not_of('\0', 24'000'000), std::string::npos);

  const ProgramResult drain = Node({"drain", "--dir", dir()});
  EXPECT_EQ(drain.exit_code, 0) << drain.err;
  EXPECT_EQ(Json::parse(drain.out)["dirty_bytes"], 0);
  const Json status = Json::parse(Node({"status", "--dir", dir()}).out);
  EXPECT_EQ(status["metrics"]["gauges"]["dirty_bytes"], 0);
  EXPECT_GT(status["metrics"]["gauges"]["logical_bytes"], 0);
  Stop();
}

// nbdkit 1.32 alone aborts at one of the first such clients.
TEST_F(NodeCliTest, ClientsThatDieWithRepliesUnreadDoNotEndIt) {
  ASSERT_EQ(StartNew().exit_code, 0);
  ASSERT_EQ(Fio({"--end_fsync=1"}).exit_code, 0);
  AlignedBuffer data(64 * 128 * kKiB);

  for (int client = 0; client < 40; ++client) {
    const NbdHandle handle = ConnectNbd(uri());
    ASSERT_NE(handle, nullptr) << "client " << client << ": " << nbd_get_error();
    for (uint64_t i = 0; i < 64; ++i) {
      // Reads whose replies fill the socket, and writes that break off in their data.
      std::byte* part = data.data() + i * 128 * kKiB;
      const int64_t cookie =
          client % 2 == 0 || i < 32
              ? nbd_aio_pread(handle.get(), part, 128 * kKiB, i * 128 * kKiB, NBD_NULL_COMPLETION,
                              0)
              : nbd_aio_pwrite(handle.get(), part, 128 * kKiB, 64 * kMiB + i * 128 * kKiB,
                               NBD_NULL_COMPLETION, 0);
      ASSERT_GE(cookie, 0) << nbd_get_error();
    }
    // Closed with all of that under way.
  }

  EXPECT_EQ(Fio({"--verify_only=1"}).exit_code, 0);
  const Json status = Json::parse(Node({"status", "--dir", dir()}).out);
  EXPECT_EQ(status["info"]["pid"], started_.back()) << "it was started again";
  Stop();
}

TEST_F(NodeCliTest, ANodeThatCrashesIsStartedAgainWithWhatWasFlushed) {
  ASSERT_EQ(StartNew().exit_code, 0);
  ASSERT_EQ(Fio({"--end_fsync=1"}).exit_code, 0);
  const pid_t first = started_.back();

  kill(first, SIGABRT);

  storage::JsonRpcClient control(dir() + "/control.sock");
  pid_t second = 0;
  ASSERT_TRUE(Eventually([&] {
    const auto info = control.Call("node.info");
    if (info.ok()) second = Json::parse(*info)["pid"];
    return second != 0 && second != first;
  }));
  started_.push_back(second);
  EXPECT_EQ(Fio({"--verify_only=1"}).exit_code, 0);
  EXPECT_THAT(FileContent(dir() + "/alpha.log"), HasSubstr("crashed (Aborted)"));
  Stop();
  EXPECT_TRUE(Eventually([&] { return kill(second, 0) != 0; }));
}

TEST_F(NodeCliTest, FioVerifiesBeforeAndAfterAKill) {
  ASSERT_EQ(StartNew().exit_code, 0);
  const ProgramResult before = Fio({"--end_fsync=1"});
  ASSERT_EQ(before.exit_code, 0) << before.err;
  kill(started_.back(), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return kill(started_.back(), 0) != 0; }));

  ASSERT_EQ(Start().exit_code, 0);
  const ProgramResult after = Fio({"--verify_only=1"});
  EXPECT_EQ(after.exit_code, 0) << after.err;

  // In the middle of its writes; then all of it again.
  BackgroundProgram fio("/usr/bin/fio",
                        {"--name=job", "--ioengine=nbd", "--uri=" + uri(), "--rw=randwrite",
                         "--bs=4k", "--size=64M", "--iodepth=16", "--time_based", "--runtime=60"},
                        scratch_.path() + "/fio.log");
  storage::JsonRpcClient control(dir() + "/control.sock");
  ASSERT_TRUE(Eventually([&] {
    const auto metrics = control.Call("metrics.get");
    return metrics.ok() && Json::parse(*metrics)["ops"]["write"]["ops"] > 2000;
  }));
  kill(started_.back(), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return kill(started_.back(), 0) != 0; }));
  fio.Wait();
  ASSERT_EQ(Start().exit_code, 0);
  const ProgramResult again = Fio({});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  Stop();
}

TEST_F(NodeCliTest, ByteRangesTrimsAndZeroesReadBack) {
  ASSERT_EQ(StartNew().exit_code, 0);
  const NbdHandle nbd = ConnectNbd(uri());
  ASSERT_NE(nbd, nullptr) << nbd_get_error();
  std::string model(kMiB, '\0');
  Rng rng(11);
  for (int i = 0; i < 300; ++i) {
    const uint64_t offset = rng.Below(kMiB - 20'000);
    const uint64_t bytes = 1 + rng.Below(20'000);
    const auto pick = rng.Below(4);
    if (pick == 0) {
      ASSERT_EQ(nbd_zero(nbd.get(), bytes, offset, 0), 0) << nbd_get_error();
      model.replace(offset, bytes, bytes, '\0');
    } else if (pick == 1) {
      // Whole blocks inside become zeroes; what a trim does to the rest of a block is open.
      const uint64_t first = (offset + 4095) / 4096 * 4096;
      const uint64_t count = bytes / 4096 * 4096;
      if (count == 0) continue;
      ASSERT_EQ(nbd_trim(nbd.get(), count, first, 0), 0) << nbd_get_error();
      model.replace(first, count, count, '\0');
    } else {
      const std::string data(bytes, static_cast<char>(1 + rng.Below(255)));
      ASSERT_EQ(
          nbd_pwrite(nbd.get(), data.data(), bytes, offset, pick == 2 ? LIBNBD_CMD_FLAG_FUA : 0), 0)
          << nbd_get_error();
      model.replace(offset, bytes, data);
    }
    const uint64_t read_offset = rng.Below(kMiB - 5000);
    std::string seen(1 + rng.Below(5000), 'x');
    ASSERT_EQ(nbd_pread(nbd.get(), seen.data(), seen.size(), read_offset, 0), 0);
    ASSERT_TRUE(seen == model.substr(read_offset, seen.size())) << "after request " << i;
  }
  std::string all(kMiB, 'x');
  ASSERT_EQ(nbd_pread(nbd.get(), all.data(), all.size(), 0, 0), 0);
  EXPECT_TRUE(all == model);
}

// Goal: clients that stay connected, idle or busy, do not hold up a stop.
TEST_F(NodeCliTest, StopsAlthoughClientsStay) {
  for (const bool by_signal : {false, true}) {
    const ProgramResult start = by_signal ? Start() : StartNew();
    ASSERT_EQ(start.exit_code, 0) << start.err;
    const NbdHandle idle = ConnectNbd(uri());
    ASSERT_NE(idle, nullptr);
    BackgroundProgram busy(
        "/usr/bin/fio",
        {"--name=job", "--ioengine=nbd", "--uri=" + uri(), "--rw=randrw", "--bs=4k", "--size=64M",
         "--iodepth=16", "--time_based", "--runtime=100"},
        scratch_.path() + "/fio.log");
    storage::JsonRpcClient control(dir() + "/control.sock");
    ASSERT_TRUE(Eventually([&] {
      const auto metrics = control.Call("metrics.get");
      return metrics.ok() && Json::parse(*metrics)["ops"]["write"]["ops"] > 100;
    }));
    if (by_signal) {
      kill(started_.back(), SIGTERM);
    } else {
      Stop();
    }
    EXPECT_TRUE(Eventually([&] { return kill(started_.back(), 0) != 0; }));
    EXPECT_THAT(FileContent(dir() + "/alpha.log"), Not(HasSubstr("Assertion")));
  }
}

TEST_F(NodeCliTest, SecondStartIsRefused) {
  ASSERT_EQ(StartNew().exit_code, 0);
  const ProgramResult second = Start();
  EXPECT_EQ(second.exit_code, 4);
  EXPECT_THAT(second.err, HasSubstr("runs already"));

  // The same devices under another name, socket and state.
  const std::string other = scratch_.path() + "/other.toml";
  std::string config = FileContent(dir() + "/node.toml");
  for (const char* file : {"cache.img", "capacity-1.img", "capacity-2.img"}) {
    config.replace(config.find(file), std::string(file).size(), dir() + "/" + file);
  }
  std::ofstream(other) << config;
  const ProgramResult stolen = Node({"start", "--config", other});
  EXPECT_EQ(stolen.exit_code, 4);
  EXPECT_THAT(stolen.err, HasSubstr("cache.img"));
  EXPECT_EQ(Node({"status", "--dir", dir()}).exit_code, 0) << "the first one was disturbed";
}

TEST_F(NodeCliTest, MissingCapacityFileIsSaidAndNotMadeAnew) {
  ASSERT_EQ(StartNew().exit_code, 0);
  ASSERT_EQ(Fio({"--end_fsync=1"}).exit_code, 0);
  Stop();
  const std::string file = dir() + "/capacity-2.img";
  std::filesystem::rename(file, file + ".away");

  const ProgramResult start = Start();

  EXPECT_EQ(start.exit_code, 4);
  EXPECT_THAT(start.err, HasSubstr("capacity-2.img"));
  EXPECT_FALSE(std::filesystem::exists(file));
  std::filesystem::rename(file + ".away", file);
  ASSERT_EQ(Start().exit_code, 0);
  EXPECT_EQ(Fio({"--verify_only=1"}).exit_code, 0);
}

TEST_F(NodeCliTest, BlankFileInPlaceOfACapacityDeviceIsRefused) {
  ASSERT_EQ(StartNew().exit_code, 0);
  ASSERT_EQ(Fio({"--end_fsync=1"}).exit_code, 0);
  Stop();
  const std::string file = dir() + "/capacity-2.img";
  std::filesystem::rename(file, file + ".away");
  std::ofstream(file).close();
  std::filesystem::resize_file(file, 256 * kMiB);

  const ProgramResult start = Start();

  EXPECT_EQ(start.exit_code, 4);
  EXPECT_THAT(start.err, HasSubstr("capacity"));
  std::filesystem::rename(file + ".away", file);
  ASSERT_EQ(Start().exit_code, 0);
  EXPECT_EQ(Fio({"--verify_only=1"}).exit_code, 0);
}

TEST_F(NodeCliTest, TruncatedCacheIsRefusedAndLeftAsItIs) {
  ASSERT_EQ(StartNew().exit_code, 0);
  ASSERT_EQ(Fio({"--end_fsync=1"}).exit_code, 0);
  Stop();
  const std::string file = dir() + "/cache.img";
  const std::string whole = FileContent(file);
  std::filesystem::resize_file(file, 16 * kMiB);

  const ProgramResult start = Start();

  EXPECT_EQ(start.exit_code, 4);
  EXPECT_THAT(start.err, HasSubstr("cache.img"));
  EXPECT_TRUE(FileContent(file) == whole.substr(0, 16 * kMiB)) << "the refused file was written to";
  std::ofstream(file, std::ios::binary) << whole;
  ASSERT_EQ(Start().exit_code, 0);
  EXPECT_EQ(Fio({"--verify_only=1"}).exit_code, 0);
}

TEST_F(NodeCliTest, ForeignFileAsCacheIsRefusedAndLeftAsItIs) {
  std::filesystem::create_directories(dir());
  const std::string file = dir() + "/cache.img";
  std::string foreign(64 * kMiB, '\0');
  foreign.replace(1024 + 56, 2, "\x53\xef");  // where ext4 keeps its mark
  foreign.replace(0, 9, "my thesis");
  std::ofstream(file, std::ios::binary) << foreign;

  const ProgramResult start = StartNew();

  EXPECT_EQ(start.exit_code, 4);
  EXPECT_THAT(start.err, HasSubstr("cache.img"));
  EXPECT_TRUE(FileContent(file) == foreign);
}

TEST_F(NodeCliTest, FileOfAnotherSizeAtTheFirstStartIsRefused) {
  std::filesystem::create_directories(dir());
  std::ofstream(dir() + "/capacity-1.img").close();
  std::filesystem::resize_file(dir() + "/capacity-1.img", 100 * kMiB);

  const ProgramResult start = StartNew();

  EXPECT_EQ(start.exit_code, 4);
  EXPECT_THAT(start.err, HasSubstr("was there already and is 100 MiB, not 256 MiB"));
}

TEST_F(NodeCliTest, MistakesGetOneSentenceAndTheirExitCode) {
  const auto expect = [&](const std::vector<std::string>& arguments, int code,
                          const std::string& text) {
    const ProgramResult result = Node(arguments);
    EXPECT_EQ(result.exit_code, code) << text;
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  };
  expect({"start"}, 2, "--dir DIR or --config FILE");
  expect({"start", "--dir", dir(), "--cache-shape", "nvm"}, 2, "did you mean nvme?");
  expect({"start", "--dir", dir(), "--cache-size", "large"}, 2, "large");
  expect({"start", "--dir", dir(), "--capacity-count", "9"}, 2, "--capacity-count");
  EXPECT_FALSE(std::filesystem::exists(dir())) << "a refused start left something";
  expect({"start", "--config", dir() + "/none.toml"}, 1, "none.toml does not exist");
  expect({"stop"}, 2, "say which node");
  expect({"stop", "--socket", dir() + "/control.sock"}, 3, "is it started?");
  expect({"status", "--socket", dir() + "/control.sock"}, 3, "is it started?");
  expect({"drain", "--socket", dir() + "/control.sock"}, 3, "is it started?");
  ASSERT_EQ(StartNew().exit_code, 0);
  Stop();
  expect({"start", "--dir", dir(), "--cache-size", "1G"}, 2, "exists already");
  expect({"stop", "--dir", dir()}, 3, "is it started?");
}

TEST_F(NodeCliTest, RecordsATraceOfItsRequests) {
  const std::string path = scratch_.path() + "/run.ebbt";
  ASSERT_EQ(Start({"--cache-size", "64M", "--capacity-size", "256M", "--volume-size", "128M",
                   "--record", path})
                .exit_code,
            0);
  {
    const NbdHandle nbd = ConnectNbd(uri());
    ASSERT_NE(nbd, nullptr);
    const std::string data(8192, 'd');
    ASSERT_EQ(nbd_pwrite(nbd.get(), data.data(), data.size(), 4096, LIBNBD_CMD_FLAG_FUA), 0);
    ASSERT_EQ(nbd_flush(nbd.get(), 0), 0);
    ASSERT_EQ(nbd_trim(nbd.get(), 4096, 4096, 0), 0);
  }
  Stop();

  const auto reader = trace::TraceReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->header().volume_bytes, 128 * kMiB);
  trace::TraceRecord record;
  ASSERT_TRUE((*reader)->Next(&record).value());
  EXPECT_EQ(record.op, trace::TraceOp::kWrite);
  EXPECT_TRUE(record.fua);
  EXPECT_EQ(record.offset, 4096U);
  EXPECT_EQ(record.bytes, 8192U);
  EXPECT_EQ(record.fingerprints.size(), 2U);
  ASSERT_TRUE((*reader)->Next(&record).value());
  EXPECT_EQ(record.op, trace::TraceOp::kFlush);
  ASSERT_TRUE((*reader)->Next(&record).value());
  EXPECT_EQ(record.op, trace::TraceOp::kTrim);
  EXPECT_FALSE((*reader)->Next(&record).value());
}

class NodeLeaseTest : public ::testing::Test {
 protected:
  NodeLeaseTest() : node_(scratch_.path()) {}

  Json Call(const std::string& method, const Json& params = Json::object()) {
    const absl::StatusOr<std::string> answer = node_.control().Call(method, params.dump());
    EXPECT_TRUE(answer.ok()) << method << ": " << answer.status();
    return answer.ok() ? Json::parse(*answer) : Json();
  }
  Json SetCandidate(uint64_t lease_ms, const Json& trips) {
    return Call("knobs.set", {{"setting", {{"destage_watermark", 85}}},
                              {"version", Call("knobs.get")["version"]},
                              {"lease_ms", lease_ms},
                              {"trips", trips},
                              {"actor", "e2e"}});
  }

  ScratchFolder scratch_;
  ServedNode node_;
};

TEST_F(NodeLeaseTest, KilledDuringATrialItStartsOnItsIncumbent) {
  ASSERT_TRUE(node_.Start().ok());
  Call("knobs.set",
       {{"setting", {{"destage_watermark", 35}}}, {"version", Call("knobs.get")["version"]}});
  const Json set = SetCandidate(600'000, Json::object());
  EXPECT_EQ(Call("knobs.get")["setting"]["destage_watermark"], 85);

  node_.Kill();
  ASSERT_TRUE(node_.Start().ok());

  const Json knobs = Call("knobs.get");
  EXPECT_EQ(knobs["setting"]["destage_watermark"], 35);
  EXPECT_GT(knobs["version"], set["version"]);
  EXPECT_EQ(knobs["last_revert"]["lease"], set["lease"]);
}

// Goal: the wire acts within a second and a bit while real requests wait. Method: a floor of
// operations that no client reaches, on a device slow enough to keep requests waiting.
TEST_F(NodeLeaseTest, ThroughputWireCutsATrialUnderLoad) {
  node_.config().groups[0].cache.shape = "disk-7200";
  node_.config().initial.Set(storage::KnobId::kReadCacheBytes, 0);
  ASSERT_TRUE(node_.Start().ok());
  const auto fio = [&](const std::string& rw, const std::string& block) {
    return std::vector<std::string>{"--name=job",    "--ioengine=nbd", "--uri=" + node_.uri(),
                                    "--size=16M",    "--iodepth=8",    "--rw=" + rw,
                                    "--bs=" + block, "--runtime=100",  "--output=/dev/null"};
  };
  ASSERT_EQ(RunProgram("/usr/bin/fio", fio("write", "1M")).exit_code, 0);
  std::vector<std::string> job = fio("randread", "4k");
  job.push_back("--time_based");
  BackgroundProgram reader("/usr/bin/fio", job, scratch_.path() + "/fio.log");
  ASSERT_TRUE(Eventually([&] { return Call("metrics.get")["ops"]["read"]["ops"] > 100; }));
  const int64_t set_ms = RealClock().WallMs();
  SetCandidate(600'000, {{"throughput_ops_min", 1e9}});

  ASSERT_TRUE(Eventually([&] { return Call("knobs.get")["lease"].is_null(); }));

  const Json revert = Call("knobs.get")["last_revert"];
  EXPECT_EQ(revert["reading"]["condition"], "throughput_ops_min");
  EXPECT_GT(revert["reading"]["value"], 0);
  EXPECT_LT(revert["wall_ms"].get<int64_t>() - set_ms, 5000);
  std::printf("reverted %lld ms after the set\n",
              static_cast<long long>(revert["wall_ms"].get<int64_t>() - set_ms));
}

}  // namespace
}  // namespace ebb::testing
