// DestagePacing decides when dirty blocks are moved to the capacity tier, and how fast.
//
//  - Above the watermark it runs until the fill is a tenth below it (hysteresis), under any load.
//  - Below, it runs when no client asked for anything for a while (longer when polite), to empty.
//  - Between two batches it pauses in proportion to the batch's own duration: politeness 0 never,
//    100 four times as long; only while clients read, and less the nearer the log is to full, by
//    its fill and by the time in which it would fill up. Near full there is no politeness.
//
// A batch gives its room back only when it is done, so it takes at most a part of the write space
// (BatchBytes): however large the knob, writers that are held back see the fill move in small
// steps.
//
// Pure: time comes in, decisions go out. One object a destager.
#pragma once

#include <cstdint>

namespace ebb::storage {

class DestagePacing {
 public:
  struct Input {
    uint64_t now_ns = 0;
    double fill = 0;        // share of the write space in use
    double fill_per_s = 0;  // how fast it grows by what clients write
    bool has_work = false;  // anything dirty
    bool drain = false;     // somebody waits for the log to be clean
    int watermark_percent = 50;
    int politeness = 50;
    uint64_t reads = 0;   // cumulative: requests of clients
    uint64_t writes = 0;  // cumulative
  };
  struct Decision {
    bool run = false;  // a batch now
    double keep_fill =
        0;  // share of the write space to leave alone: its blocks may yet be overwritten
    uint64_t wait_ns = 0;  // when not: look again after this long at the latest
  };

  Decision Decide(const Input& input);
  void OnBatchDone(uint64_t begin_ns, uint64_t end_ns);

  bool active() const { return active_; }  // above the watermark and not yet below the lower mark

  static double LowerMark(int watermark_percent);
  static uint64_t IdleWaitNs(int politeness);
  // Size of a batch for the knob destage_batch_bytes.
  static uint64_t BatchBytes(uint64_t knob_bytes, uint64_t write_space_bytes);

 private:
  uint64_t PauseNs(const Input& input) const;

  bool active_ = false;
  uint64_t batch_duration_ns_ = 0;
  uint64_t batch_end_ns_ = 0;
  uint64_t last_request_ns_ = 0;  // when a client's request was last noticed
  uint64_t last_read_ns_ = 0;
  uint64_t reads_seen_ = 0;
  uint64_t writes_seen_ = 0;
};

}  // namespace ebb::storage
