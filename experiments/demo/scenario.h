// The demo's scenario as data: devices, phases of load and how each is compared.
//
// The three VSAN profiles keep 16 requests of 4 KiB outstanding on each of two disks: two fio jobs,
// each on one half of the export. Pure functions; the run is in demo.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agents/agent.h"

namespace ebb::demo {

struct Options {
  agents::GoalKind goal = agents::GoalKind::kBalanced;
  std::string goal_word = "balanced";
  std::string agent;   // empty: the daemon's own default
  double minutes = 4;  // of tuning
  size_t pairs = 0;    // of blocks in each comparison; 0: what the phase says
  uint64_t seed = 1;
  bool keep = false;           // leave node, sidecar and scratch folder as they are at the end
  std::string scratch_parent;  // empty: chosen (scratch.h)
  std::string trace_path;      // of the recorded trace
  std::string bin_dir;         // where the programs are
  std::string plugin_path;
};

// Sizes and shapes of the demo node.
struct NodeShape {
  uint64_t volume_bytes = 0;
  uint64_t cache_bytes = 0;
  uint64_t capacity_bytes = 0;  // of each
  int capacity_devices = 2;
  std::string cache_shape;
  std::string capacity_shape;
  double capacity_scale = 1;
  std::string device_class;
};
NodeShape DemoShape();
// The node's configuration file; sockets and files lie beside it.
std::string NodeConfigText(const NodeShape& shape);

struct Phase {
  std::string id;                // "read"
  std::string title;             // "100 % random read, 4 KiB, 2 x 16 outstanding"
  std::vector<std::string> fio;  // options of every job; empty: the recorded trace
  size_t pairs = 0;              // of blocks
  // The load begins anew with each block, so that every block sees the same requests.
  bool restart = false;
  uint32_t warm_s = 0;    // after the load starts, before anything is measured
  uint32_t settle_s = 0;  // after each change of setting, dropped
  uint32_t block_s = 0;   // measured in each block
};
// In the order in which they are compared.
std::vector<Phase> DemoPhases(const NodeShape& shape);

// A stretch of tuning under one phase's load.
struct Stretch {
  size_t phase = 0;  // position in DemoPhases
  uint32_t seconds = 0;
};
// What runs while the tuner works toward `goal`: loads in which the goal's own kind of request
// matters.
std::vector<Stretch> TuningPlan(const std::vector<Phase>& phases, agents::GoalKind goal,
                                double minutes);

// Fills the whole export once, so that reads find data.
std::vector<std::string> FillCommand(const std::string& nbd_uri, const NodeShape& shape);
// Writes as much again in random order: a store whose blocks lie as they were first written gets
// slower for minutes, whatever its setting, until they lie as its clients write them.
std::vector<std::string> AgeCommand(const std::string& nbd_uri, const NodeShape& shape);
// Runs until it is stopped.
std::vector<std::string> LoadCommand(const Options& options, const Phase& phase,
                                     const std::string& nbd_uri, const NodeShape& shape);

}  // namespace ebb::demo
