#include "experiments/demo/scenario.h"

#include <algorithm>
#include <array>

#include "base/units.h"
#include "fmt/format.h"

namespace ebb::demo {
namespace {

// Longer than any demo: the load is stopped, it does not end.
constexpr int kLoadSeconds = 86'400;
// A minute of trace in one block.
constexpr int kTraceSpeed = 5;
constexpr uint64_t kBurstBytes = 192 * kMiB;
// A read cache that was just given more room has to fill before it can help.
constexpr uint32_t kCacheSettleS = 12;
constexpr uint64_t kBurstRequestBytes = 32 * kKiB;

// Half of it compressible, and no block twice.
constexpr std::array kFreshContent = {"--end_fsync=1", "--refill_buffers=1",
                                      "--buffer_compress_percentage=50",
                                      "--buffer_compress_chunk=4k"};

// Two jobs on two halves, as the two disks of a virtual machine.
void AddHalves(const NodeShape& shape, std::vector<std::string>& command) {
  const uint64_t half = shape.volume_bytes / 2;
  for (int disk = 0; disk < 2; ++disk) {
    command.push_back(fmt::format("--name=disk{}", disk + 1));
    command.push_back(fmt::format("--offset={}", static_cast<uint64_t>(disk) * half));
    command.push_back(fmt::format("--size={}", half));
  }
}

std::vector<std::string> FioCommand(const std::string& nbd_uri) {
  // Without fio's map of blocks not yet touched: with it "random" is one pass over all blocks after
  // the other, and no cache smaller than the volume is ever hit.
  return {"fio", "--ioengine=nbd", fmt::format("--uri={}", nbd_uri), "--group_reporting=1",
          "--norandommap=1"};
}

size_t Find(const std::vector<Phase>& phases, std::string_view id) {
  const auto found = std::find_if(phases.begin(), phases.end(),
                                  [&](const Phase& phase) { return phase.id == id; });
  return static_cast<size_t>(found - phases.begin());
}

}  // namespace

// The volume is not twice the cache, so that what the two read caches keep is a visible share of
// it. Small, and on faster disks, so that a changed cache fills in seconds: a disk of 150 reads a
// second takes minutes to show what a larger cache is worth.
NodeShape DemoShape() {
  return {.volume_bytes = 512 * kMiB,
          .cache_bytes = 192 * kMiB,
          .capacity_bytes = kGiB,
          .capacity_devices = 2,
          .cache_shape = "nvme",
          .capacity_shape = "disk-7200",
          .capacity_scale = 10,
          .device_class = "disk"};
}

std::string NodeConfigText(const NodeShape& shape) {
  std::string text = fmt::format(
      "name = \"demo\"\n"
      "device_class = \"{}\"\n"
      "volume_size = {}\n"
      "control_socket = \"control.sock\"\n"
      "state_dir = \"state\"\n"
      "metadata_dir = \"metadata\"\n\n"
      "[nbd]\n"
      "socket = \"nbd.sock\"\n"
      "threads = 16\n\n"
      "[cache]\n"
      "path = \"cache.img\"\n"
      "size = {}\n"
      "shape = \"{}\"\n",
      shape.device_class, shape.volume_bytes, shape.cache_bytes, shape.cache_shape);
  for (int i = 1; i <= shape.capacity_devices; ++i) {
    text += fmt::format(
        "\n[[capacity]]\n"
        "path = \"capacity-{}.img\"\n"
        "size = {}\n"
        "shape = \"{}\"\n"
        "shape_scale = {}\n",
        i, shape.capacity_bytes, shape.capacity_shape, shape.capacity_scale);
  }
  return text;
}

std::vector<Phase> DemoPhases(const NodeShape& shape) {
  const uint64_t burst_requests = kBurstBytes / 2 / kBurstRequestBytes;
  return {
      {.id = "read",
       .title = "100 % random read, 4 KiB, 16 outstanding on each of 2 disks",
       .fio = {"--bs=4k", "--iodepth=16", "--rw=randread"},
       .pairs = 3,
       .warm_s = 5,
       .settle_s = kCacheSettleS,
       .block_s = 6},
      {.id = "write",
       .title = "100 % random write, 4 KiB, 16 outstanding on each of 2 disks",
       .fio = {"--bs=4k", "--iodepth=16", "--rw=randwrite"},
       .pairs = 5,
       .warm_s = 5,
       .settle_s = 2,
       .block_s = 3},
      {.id = "mixed",
       .title = "65/35 read/write, 60 % random, 4 KiB, 16 outstanding on each of 2 disks",
       .fio = {"--bs=4k", "--iodepth=16", "--rw=randrw", "--rwmixread=65",
               "--percentage_random=60"},
       .pairs = 3,
       .warm_s = 5,
       .settle_s = kCacheSettleS,
       .block_s = 6},
      {.id = "burst",
       .title = fmt::format("bursts of {} random writes into {} of cache, 3 s pauses",
                            FormatBytes(kBurstBytes), FormatBytes(shape.cache_bytes)),
       .fio = {fmt::format("--bs={}", kBurstRequestBytes), "--iodepth=16", "--rw=randwrite",
               "--thinktime=3000000", fmt::format("--thinktime_blocks={}", burst_requests)},
       .pairs = 4,
       .warm_s = 5,
       .settle_s = 2,
       .block_s = 8},
      {.id = "trace",
       .title = fmt::format("recorded trace of SQLite on ext4, {} times faster than recorded",
                            kTraceSpeed),
       .fio = {},
       .pairs = 3,
       .restart = true,
       .warm_s = 0,
       .settle_s = 1,
       .block_s = 10},
  };
}

std::vector<Stretch> TuningPlan(const std::vector<Phase>& phases, agents::GoalKind goal,
                                double minutes) {
  const auto seconds = [&](double share) { return static_cast<uint32_t>(60 * minutes * share); };
  switch (goal) {
    case agents::GoalKind::kRead:
      return {{Find(phases, "read"), seconds(1)}};
    case agents::GoalKind::kWrite:
      return {{Find(phases, "write"), seconds(1)}};
    case agents::GoalKind::kBalanced:
      break;
  }
  return {{Find(phases, "mixed"), seconds(1)}};
}

std::vector<std::string> FillCommand(const std::string& nbd_uri, const NodeShape& shape) {
  std::vector<std::string> command = FioCommand(nbd_uri);
  command.insert(command.end(), {"--rw=write", "--bs=1m", "--iodepth=8"});
  command.insert(command.end(), kFreshContent.begin(), kFreshContent.end());
  AddHalves(shape, command);
  return command;
}

std::vector<std::string> AgeCommand(const std::string& nbd_uri, const NodeShape& shape) {
  std::vector<std::string> command = FioCommand(nbd_uri);
  command.insert(command.end(), {"--rw=randwrite", "--bs=4k", "--iodepth=16"});
  command.insert(command.end(), kFreshContent.begin(), kFreshContent.end());
  AddHalves(shape, command);
  return command;
}

std::vector<std::string> LoadCommand(const Options& options, const Phase& phase,
                                     const std::string& nbd_uri, const NodeShape& shape) {
  if (phase.fio.empty()) {
    return {options.bin_dir + "/ebb",
            "trace",
            "replay",
            options.trace_path,
            "--uri",
            nbd_uri,
            "--fold",
            "--speed",
            fmt::format("{}", kTraceSpeed),
            "--duration",
            fmt::format("{}s", kLoadSeconds)};
  }
  std::vector<std::string> command = FioCommand(nbd_uri);
  // Scrambled, so that every written block is new. (fio's refill_buffers repeats the same content
  // in every run: measured, 95 % of it was then deduplicated against the run before.)
  command.push_back("--scramble_buffers=1");
  command.push_back("--allrandrepeat=0");
  command.push_back("--time_based=1");
  command.push_back(fmt::format("--runtime={}", kLoadSeconds));
  command.insert(command.end(), phase.fio.begin(), phase.fio.end());
  AddHalves(shape, command);
  return command;
}

}  // namespace ebb::demo
