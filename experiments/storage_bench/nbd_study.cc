// Through NBD: our node beside the servers it is measured against, same client, in turn.
#include <array>
#include <filesystem>
#include <fstream>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "base/units.h"
#include "experiments/storage_bench/fio.h"
#include "experiments/storage_bench/nbd_server.h"
#include "experiments/storage_bench/study.h"
#include "fmt/format.h"

namespace ebb::storage_bench {
namespace {

// The servers' names are part of the names of the series.
constexpr const char* kFile1 = "file_t1";
constexpr const char* kFile16 = "file_t16";

storage::NodeConfig NodeIn(const std::string& folder, uint64_t volume_bytes, uint64_t cache_bytes,
                           uint64_t capacity_bytes) {
  storage::NodeConfig config;
  config.name = "bench";
  config.volume_bytes = volume_bytes;
  config.control_socket = folder + "/control.sock";
  config.state_dir = folder + "/state";
  config.nbd.socket = folder + "/nbd.sock";
  storage::GroupConfig group;
  group.metadata_dir = folder + "/metadata";
  group.cache.path = folder + "/cache.img";
  group.cache.create_bytes = cache_bytes;
  group.capacity.resize(1);
  group.capacity[0].path = folder + "/capacity-1.img";
  group.capacity[0].create_bytes = capacity_bytes;
  config.groups.push_back(std::move(group));
  return config;
}

// Makes a file whose blocks are all allocated: zeroes, written out.
absl::Status LayOut(const std::string& path, uint64_t bytes) {
  if (std::filesystem::exists(path)) return absl::OkStatus();
  return experiments::RunAndRead({"dd", "if=/dev/zero", "of=" + path, "bs=1M",
                                  fmt::format("count={}", bytes / kMiB), "conv=fsync"},
                                 std::filesystem::path(path).parent_path().string(), 120'000)
      .status();
}

// One fio run against `server`, in its turn.
absl::StatusOr<FioResult> RunTurn(NbdServer& server, std::vector<std::string> job,
                                  const std::string& scratch, double* server_cpu_us_per_op) {
  const Turn turn(server);
  // While it was stopped the clock went on: the node believes that it has been idle and would
  // destage in the first moments of this turn.
  EBB_RETURN_IF_ERROR(server.Drain());
  job.insert(job.end(), {"--ioengine=nbd", "--uri=" + server.uri()});
  const double cpu_begin = server.CpuSeconds();
  EBB_ASSIGN_OR_RETURN(const FioResult result, RunFio(job, scratch));
  if (server_cpu_us_per_op != nullptr) {
    *server_cpu_us_per_op = (server.CpuSeconds() - cpu_begin) * 1e6 / result.ops;
  }
  return result;
}

struct Load {
  const char* name;
  const char* rw;
  const char* bs;
};
// What is read in order was written in order: the first load lays it out anew in each repeat.
constexpr std::array<Load, 4> kLoads = {{{"seqwrite", "write", "128k"},
                                         {"seqread", "read", "128k"},
                                         {"randread", "randread", "4k"},
                                         {"randwrite", "randwrite", "4k"}}};

class NbdTmpfsStudy final : public Study {
 public:
  explicit NbdTmpfsStudy(const BenchOptions& options)
      : options_(options), folder_(options.memory_dir + "/nbd") {}
  std::string name() const override { return "nbd_tmpfs"; }

  absl::Status RunOnce(Samples& samples) override {
    if (servers_.empty()) EBB_RETURN_IF_ERROR(StartServers());
    for (const Load& load : kLoads) EBB_RETURN_IF_ERROR(Measure(load, samples));
    return absl::OkStatus();
  }

 private:
  static constexpr uint64_t kWorkingSetBytes = 256 * kMiB;
  static constexpr uint64_t kCacheBytes = 2 * kGiB;
  static constexpr size_t kTurns = 9;

  absl::Status StartServers() {
    std::filesystem::create_directories(folder_);
    const storage::NodeConfig config = NodeIn(folder_, kGiB, kCacheBytes, 2 * kGiB);
    // As the peers' file: no one pays for the first touch of a page.
    EBB_RETURN_IF_ERROR(LayOut(config.groups[0].cache.path, kCacheBytes));
    EBB_ASSIGN_OR_RETURN(auto node, NbdServer::StartNode(folder_, config));
    servers_.push_back(std::move(node));
    const std::string file = folder_ + "/peer.img";
    EBB_RETURN_IF_ERROR(LayOut(file, kWorkingSetBytes));
    for (const auto& [name, threads] : {std::pair(kFile1, "1"), std::pair(kFile16, "16")}) {
      EBB_ASSIGN_OR_RETURN(auto peer,
                           NbdServer::StartPeer(folder_, name, {"-t", threads, "file", file}));
      servers_.push_back(std::move(peer));
    }
    for (const auto& server : servers_) {
      EBB_RETURN_IF_ERROR(RunTurn(*server,
                                  {"--rw=write", "--bs=128k", "--iodepth=16",
                                   fmt::format("--size={}", kWorkingSetBytes)},
                                  folder_, nullptr)
                              .status());
    }
    return absl::OkStatus();
  }

  // Each server's median of many short turns: a neighbour on the host takes a core away for some
  // tens of milliseconds now and then, which would decide one long turn and spoils few short ones.
  absl::Status Measure(const Load& load, Samples& samples) {
    struct Series {
      std::vector<double> ops_per_s, p50_us, p99_us, server_cpu_us_per_op;
    };
    std::vector<Series> series(servers_.size());
    for (size_t turn = 0; turn < (options_.quick ? 1 : kTurns); ++turn) {
      for (size_t i = 0; i < servers_.size(); ++i) {
        // Who goes first changes from turn to turn.
        const size_t which = (i + turn + runs_) % servers_.size();
        double cpu_us_per_op = 0;
        EBB_ASSIGN_OR_RETURN(
            const FioResult result,
            RunTurn(*servers_[which],
                    {fmt::format("--rw={}", load.rw), fmt::format("--bs={}", load.bs),
                     "--iodepth=16", fmt::format("--size={}", kWorkingSetBytes), "--time_based",
                     "--norandommap", "--runtime=300ms"},
                    folder_, &cpu_us_per_op));
        series[which].ops_per_s.push_back(result.ops_per_s);
        series[which].p50_us.push_back(result.p50_us);
        series[which].p99_us.push_back(result.p99_us);
        series[which].server_cpu_us_per_op.push_back(cpu_us_per_op);
      }
    }
    ++runs_;
    for (size_t i = 0; i < servers_.size(); ++i) {
      const std::string name = fmt::format("nbd_{}.{}", load.name, servers_[i]->name());
      samples.Add(name + ".ops_per_s", Median(series[i].ops_per_s));
      samples.Add(name + ".p50_us", Median(series[i].p50_us));
      samples.Add(name + ".p99_us", Median(series[i].p99_us));
      samples.Add(name + ".server_cpu_us_per_op", Median(series[i].server_cpu_us_per_op));
    }
    return absl::OkStatus();
  }

  const BenchOptions options_;
  const std::string folder_;
  size_t runs_ = 0;
  std::vector<std::unique_ptr<NbdServer>> servers_;
};

class NbdDiskStudy final : public Study {
 public:
  explicit NbdDiskStudy(const BenchOptions& options)
      : options_(options), folder_(options.disk_dir + "/nbd") {}
  std::string name() const override { return "nbd_disk"; }

  absl::Status RunOnce(Samples& samples) override {
    if (node_ == nullptr) EBB_RETURN_IF_ERROR(Prepare());
    EBB_ASSIGN_OR_RETURN(const FioResult ours, RunTurn(*node_, Job(), folder_, nullptr));
    AddFioSamples("nbd_disk_burst.ebb", ours, samples);
    {
      const Turn turn(*node_);
      EBB_RETURN_IF_ERROR(node_->Drain());
    }
    std::vector<std::string> raw = Job();
    raw.insert(raw.end(), {"--ioengine=io_uring", "--direct=1", "--filename=" + peer_file()});
    EBB_ASSIGN_OR_RETURN(const FioResult own, RunFio(raw, folder_));
    AddFioSamples("nbd_disk_burst.raw", own, samples);
    // A new one each time: what it once has in its cache it need not fetch again.
    EBB_ASSIGN_OR_RETURN(const auto filter, NbdServer::StartPeer(folder_, "cache_filter",
                                                                 {"--filter=cache", "file",
                                                                  peer_file(), "cache=writeback"}));
    EBB_ASSIGN_OR_RETURN(const FioResult cached, RunTurn(*filter, Job(), folder_, nullptr));
    AddFioSamples("nbd_disk_burst.cache_filter", cached, samples);
    return absl::OkStatus();
  }

 private:
  uint64_t burst_bytes() const { return (options_.quick ? 16 : 256) * kMiB; }
  uint64_t volume_bytes() const { return (options_.quick ? 256 : 4096) * kMiB; }
  std::string peer_file() const { return folder_ + "/peer.img"; }

  // Anywhere in the volume. Ends with the burst; slow ones end earlier, their rate is known by
  // then.
  std::vector<std::string> Job() const {
    return {"--rw=randwrite",
            "--bs=4k",
            "--iodepth=16",
            "--norandommap",
            fmt::format("--size={}", volume_bytes()),
            fmt::format("--io_size={}", burst_bytes()),
            options_.quick ? "--runtime=1" : "--runtime=4"};
  }

  absl::Status Prepare() {
    std::filesystem::create_directories(folder_);
    const storage::NodeConfig config = NodeIn(folder_, volume_bytes(), kGiB, 2 * kGiB);
    EBB_RETURN_IF_ERROR(LayOut(config.groups[0].cache.path, kGiB));
    EBB_RETURN_IF_ERROR(LayOut(peer_file(), volume_bytes()));
    EBB_ASSIGN_OR_RETURN(node_, NbdServer::StartNode(folder_, config));
    return absl::OkStatus();
  }

  const BenchOptions options_;
  const std::string folder_;
  std::unique_ptr<NbdServer> node_;
};

}  // namespace

std::unique_ptr<Study> MakeNbdTmpfsStudy(const BenchOptions& options) {
  return std::make_unique<NbdTmpfsStudy>(options);
}

std::unique_ptr<Study> MakeNbdDiskStudy(const BenchOptions& options) {
  return std::make_unique<NbdDiskStudy>(options);
}

}  // namespace ebb::storage_bench
