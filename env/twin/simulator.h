// Simulator: a node in simulated time, under a compiled load.
//
// The node's own policies (storage-backend/policy) and device models (storage-backend/device)
// inside models of its log, read cache, capacity tier, metadata and processor. Requests are served
// in the order of the load, either at its times (open loop) or as clients become free (closed
// loop); what lies in the future is a heap of events. A request that meets nothing but memory costs
// no event.
//
//   request -> worker -> core -> read:  DRAM, group buffer | cache device, all runs at once
//                                       | capacity devices, one transfer after the other
//                             -> write: throttle | room in the log | group buffer
//                             -> flush: company | groups written | device flush
//   background: decide -> collect -> read -> pack and write extents -> flush -> commit -> clean
//
// Same config, load and seed: same numbers, on any machine. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/histogram.h"
#include "env/observation.h"
#include "env/twin/block_table.h"
#include "env/twin/capacity_model.h"
#include "env/twin/cpu_model.h"
#include "env/twin/event_heap.h"
#include "env/twin/log_model.h"
#include "env/twin/node_model.h"
#include "env/twin/read_cache_model.h"
#include "env/twin/request_stream.h"
#include "env/twin/window_result.h"
#include "storage-backend/device/service_model.h"
#include "storage-backend/knobs/knobs.h"
#include "storage-backend/policy/destage_pacing.h"
#include "storage-backend/policy/fill_rate.h"
#include "storage-backend/policy/flush_grouping.h"
#include "storage-backend/policy/reduction_choice.h"
#include "storage-backend/policy/stream_detector.h"
#include "storage-backend/policy/write_throttle.h"

namespace ebb::twin {

struct SimulatorConfig {
  NodeModel node;
  storage::Setting setting;
  uint64_t seed = 1;
  // 0: requests come at the load's times; else so many clients each wait for their answer.
  int closed_loop_clients = 0;
  // A request's entry in the stream that a descriptor is made of, for every window.
  bool keep_stream = false;
};

class Simulator {
 public:
  // `load` outlives the simulator; its divisor makes the node smaller. InvalidArgument when the
  // node or the setting cannot be, or the volume does not fit.
  static absl::StatusOr<std::unique_ptr<Simulator>> Make(const SimulatorConfig& config,
                                                         const RequestStream& load);

  // Takes effect at once, like the node's. InvalidArgument with every fault.
  absl::Status Apply(const storage::Setting& setting);
  // Lets the load pass without time until the log has been filled once and the caches are warm, or
  // the whole load passed `passes_max` times. Destage keeps the fill at the watermark. Then the
  // load begins anew. With a `share` below 1 only that part of its requests passes, and the load
  // goes on behind it: a load that repeats is one that a cache may learn.
  void WarmUp(int passes_max, double share = 1);
  // The next `seconds` of the node's time.
  WindowResult RunWindow(double seconds);

  const storage::Setting& setting() const { return setting_; }
  const RequestStream& load() const { return load_; }
  uint64_t now_ns() const { return now_ns_; }  // simulated: a sample's runs faster
  uint64_t block_operations() const { return block_operations_; }  // served so far
  uint64_t capacity_free_bytes() const { return capacity_.FreeBytes(); }

 private:
  enum EventKind : uint16_t {
    kReadStage,
    kHeldWrite,
    kFlushBegin,
    kFlushDevice,
    kFlushDone,
    kBackground,
    kScrub
  };
  enum class FlushState : uint8_t { kIdle, kGathering, kRunning };
  enum class Stage : uint8_t {
    kDecide,   // nothing under way: look what to do
    kFlushed,  // a flush made something durable to be destaged
    kReleaseAfterFlush,
    kRead,          // the batch's blocks are in memory
    kReadBack,      // what a batch compares itself with is being read
    kPack,          // ready for the next extent
    kExtent,        // an extent is packed
    kWritten,       // all extents are on the devices
    kCommit,        // and flushed
    kCommitted,     // the map is durable
    kBatchFlushed,  // and a flush made the oldest segment free to go
    kCompactRead    // what compaction moves is in memory
  };
  static constexpr uint32_t kNoRequest = UINT32_MAX;
  static constexpr uint32_t kBackgroundFlush = UINT32_MAX - 1;

  struct Fill {
    uint32_t slot = 0;
    uint32_t block = 0;
    uint32_t log = 0;  // where the block was in the log when it was planned
  };
  struct Served {
    uint32_t record = 0;
    uint32_t client = 0;
    uint64_t arrival_ns = 0;
    uint64_t entry_ns = 0;  // into the node's verb: its latency counts from here
  };
  // A request whose completion is not known when it is served.
  struct Pending {
    Served served;
    bool copies = false;
    uint32_t end_record = 0;          // of a read, which ends before it
    uint32_t blocks = 0;              // of a read ...
    uint32_t blocks_done = 0;         // ... and of its parts so far
    uint32_t record = 0;              // next to be appended, of a write
    uint32_t record_block = 0;        // in it
    std::vector<Transfer> transfers;  // of the capacity tier, still to be done
    size_t next_transfer = 0;
    std::vector<Fill> fills;
    std::vector<uint32_t> from_capacity;  // blocks that may be copied to the log
  };
  struct ReadRun {
    uint32_t cache_block = 0;
    uint32_t blocks = 0;
  };
  struct Late {
    uint64_t done_ns = 0;
    uint64_t latency_ns = 0;
    uint64_t client_ns = 0;
    uint32_t bytes = 0;
    RequestKind kind = RequestKind::kRead;
  };
  struct DirtyItem {
    LogModel::DirtyBlock block;
    uint64_t place = 0;
  };
  // Blocks of the next batch, read ahead.
  struct Ahead {
    std::vector<LogModel::DirtyBlock> blocks;
    size_t started = 0;    // blocks whose transfer was begun
    uint64_t done_ns = 0;  // of those
  };
  struct Lately {
    double moved_bytes = 0;
    double freed_bytes = 0;
    double seconds = 0;
  };

  Simulator(const SimulatorConfig& config, const NodeModel& node, const RequestStream& load,
            std::unique_ptr<storage::ServiceModel> cache,
            std::vector<std::unique_ptr<storage::ServiceModel>> capacity);

  // simulator.cc
  uint64_t NextStart();
  uint64_t ArrivalNs() const;
  void ServeNext(uint64_t now_ns);
  void RunEvent(const Event& event);
  void Complete(const Served& served, uint64_t done_ns);
  void CompletePending(uint32_t pending, uint64_t done_ns);
  void Record(const Late& one);
  uint32_t TakePending(const Served& served);
  void BeginWindow();
  void EndWindow(double seconds);
  uint64_t PolicyNs(uint64_t now_ns) const { return now_ns * time_divisor_; }
  uint64_t NodeToSimulated(uint64_t ns) const { return ns / time_divisor_; }
  // Processor time of a foreground step that was not booked with the request itself.
  uint64_t DeviceWaitNs() const;

  // simulator_read.cc
  struct ReadPlan {
    std::vector<ReadRun> runs;  // on the cache device
    std::vector<Transfer> transfers;
    std::vector<Fill> fills;
    std::vector<uint32_t> from_capacity;
    double cpu_ns = 0;
    bool copies = false;
    bool misses = false;
    uint32_t wanted = 0;
  };
  void ServeRead(Served served, uint32_t end_record, uint64_t now_ns);
  void ClearPlan();
  // Of the request at `record`: its blocks from number `begin` to `end`.
  void PlanRead(uint32_t record, uint32_t begin, uint32_t end);
  uint32_t BlocksOf(uint32_t record, uint32_t end_record) const;
  // A block that is read in part is a read of its own, before or after the others: where the part
  // that begins at block number `done` ends.
  uint32_t PartEnd(uint32_t record, uint32_t end_record, uint32_t done, uint32_t blocks) const;
  // Reads what is left of a request; `pending` is kNoRequest as long as it needed no device.
  void ReadParts(Served& served, uint32_t end_record, uint32_t done, uint32_t pending,
                 uint64_t now_ns);
  void PlanBlock(uint32_t block, bool count);
  void PlanCapacity();
  void PlanReadahead(uint32_t first_block, uint32_t last_block);
  void PlanKeeping(size_t wanted_missed);
  uint64_t ReadRuns(uint64_t now_ns);
  void ReadStage(uint32_t pending, uint64_t now_ns);
  void EndRead(const std::vector<Fill>& fills, const std::vector<uint32_t>& from_capacity,
               bool copies, uint64_t& now_ns);

  // simulator_write.cc
  void ServeWrite(Served served, uint32_t end_record, uint64_t now_ns);
  // A write of a part of a block reads the rest first.
  bool PlanMerge(uint32_t record, uint32_t end_record);
  uint64_t HoldUntilNs(uint64_t now_ns, uint64_t bytes);
  bool AppendRecord(const Request& request, uint32_t& block, uint64_t& now_ns);
  // Appends what is left; when there is no room, the request waits for it.
  void TryAppend(uint32_t pending, uint64_t now_ns);
  void RetryWaiting(uint64_t now_ns);
  void ServeFlush(Served served, uint64_t now_ns);
  void RequestFlush(uint32_t who, uint64_t now_ns);
  void GatherFlush(uint64_t now_ns);
  void BeginFlush(uint64_t now_ns);
  void EndFlush(uint64_t now_ns);
  void AnswerFlush(uint32_t who, uint64_t now_ns);
  bool HasSpaceFor(uint64_t blocks) const;

  // simulator_background.cc
  void WakeBackground(uint64_t now_ns, Stage stage);
  void Kick(uint64_t now_ns);
  void Background(uint64_t now_ns);
  void Decide(uint64_t now_ns);
  void Wait(uint64_t now_ns, uint64_t policy_wait_ns);
  void BeginBatch(uint64_t now_ns);
  void CollectBatch(uint64_t now_ns);
  bool ApplyRanges(uint64_t now_ns);
  uint64_t StartAhead(uint64_t now_ns, size_t blocks_max);
  uint64_t ReadDirty(const std::vector<LogModel::DirtyBlock>& blocks, size_t begin, size_t end,
                     uint64_t now_ns);
  void BatchRead(uint64_t now_ns);
  void ReadBack(uint64_t now_ns);
  void PackNext(uint64_t now_ns);
  void WriteExtent(uint64_t now_ns);
  void FlushCapacity(uint64_t now_ns);
  void CommitBatch(uint64_t now_ns);
  void EndBatch(uint64_t now_ns);
  void FinishBatch(uint64_t now_ns);
  bool ReleaseClean(uint64_t now_ns);
  void CountBatch(uint64_t took_ns);
  bool BeginCompaction(uint64_t now_ns, bool urgent);
  uint64_t BackgroundNs(double serial_ns, double parallel_ns, int threads);
  StoreChoice CurrentChoice() const;
  void Scrub(uint64_t now_ns);
  // Makes batch_blocks_ of them, by their places.
  void FillBatch(std::span<const LogModel::DirtyBlock> dirty_blocks);
  void SortByPlace(std::vector<CapacityModel::BatchBlock>& blocks);

  // simulator_warm_up.cc
  void PassWithoutTime(uint32_t record, uint32_t end_record);
  void DestageWithoutTime(double until_fill);
  bool StoreWithoutTime();

  const SimulatorConfig config_;
  const NodeModel node_;  // as simulated
  const RequestStream& load_;
  const double divisor_;
  const uint32_t time_divisor_;
  storage::Setting setting_;
  std::unique_ptr<storage::ServiceModel> cache_;
  std::vector<std::unique_ptr<storage::ServiceModel>> capacity_devices_;
  BlockTable table_;
  LogModel log_;
  ReadCacheModel read_cache_;
  CapacityModel capacity_;
  CpuModel cpu_;

  // Knobs that requests look at.
  uint32_t readahead_blocks_ = 0;
  uint64_t bypass_bytes_ = 0;
  int softness_ = 0;
  int watermark_ = 0;
  double lower_mark_ = 0;
  double throttle_start_ = 0;

  EventHeap events_;
  uint64_t now_ns_ = 0;
  // The load.
  uint32_t next_record_ = 0;
  uint64_t pass_begin_ns_ = 0;
  std::vector<uint64_t> workers_;  // heap: when those under way are free
  size_t workers_waiting_ = 0;     // under way, end unknown
  struct Client {
    uint64_t ready_ns = 0;
    uint32_t number = 0;
  };
  std::vector<Client> clients_;  // heap, of a closed loop
  std::vector<Pending> pending_;
  std::vector<uint32_t> free_pending_;
  ReadPlan plan_;
  storage::StreamDetector streams_;

  storage::WriteThrottle throttle_;
  std::vector<uint32_t> waiting_for_room_;
  size_t first_waiting_ = 0;
  FlushState flush_state_ = FlushState::kIdle;
  storage::FlushGrouping grouping_;
  uint64_t flush_group_us_ = 0;
  uint64_t flush_began_ns_ = 0;
  uint32_t flush_generation_ = 0;
  struct FlushMember {
    uint32_t who = 0;
    uint64_t sequence = 0;  // of the log, that is to be durable
  };
  std::vector<FlushMember> flush_joined_;
  size_t flush_members_ = 0;  // as the node counts them: since the last group was closed
  size_t flush_group_ = 0;    // of the flush that runs
  LogModel::FlushTarget flush_target_;

  Stage stage_ = Stage::kDecide;
  uint32_t background_generation_ = 0;
  bool sleeping_ = false;
  storage::DestagePacing pacing_;
  storage::FillRate fill_rate_;
  storage::ReductionChoice reduction_;
  uint64_t last_request_ns_ = 0;  // in the policies' time, as the background noticed
  uint64_t requests_seen_ = 0;
  uint64_t batch_begin_ns_ = 0;
  double batch_keep_fill_ = 0;
  bool batch_quiet_ = false;
  bool batch_behind_ = false;
  bool batch_reduced_ = false;
  bool batch_flushed_ = false;
  bool compacting_ = false;
  bool resume_batch_ = false;  // after compaction that made room for it
  StoreChoice batch_choice_;
  std::vector<LogModel::DirtyBlock> chosen_;
  std::vector<LogModel::DirtyBlock> batch_dirty_;
  std::vector<CapacityModel::BatchBlock> batch_blocks_;
  std::vector<CapacityModel::BatchBlock> sorted_blocks_;
  std::vector<uint64_t> sort_keys_;
  std::vector<Transfer> compaction_reads_;
  size_t next_read_back_ = 0;
  Ahead ahead_;
  CapacityModel::Extent extent_;
  std::vector<uint64_t> extents_in_flight_;
  std::vector<bool> device_written_;
  double drain_bytes_per_s_ = 0;
  Lately lately_;
  uint64_t cleaned_seen_ = 0;
  uint32_t scrub_page_ = 0;
  bool scrubbing_ = false;

  // The window.
  WindowResult window_;
  uint64_t window_end_ns_ = 0;
  std::vector<Late> late_;
  uint64_t reads_ = 0;  // cumulative
  uint64_t writes_ = 0;
  uint64_t block_operations_ = 0;
  double in_flight_ns_ = 0;
  uint64_t hits_ = 0;
  uint64_t capacity_written_before_ = 0;
  uint64_t coalesced_before_ = 0;
  double cpu_before_ns_ = 0;
};

}  // namespace ebb::twin
