// The table of formats: one row each, one file for each family in this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "env/trace/entry_source.h"
#include "env/trace/trace_source.h"

namespace ebb::env {

using MakeParser = std::unique_ptr<EntryParser> (*)(const TraceOptions& options);

struct TraceFormat {
  std::string_view name;
  std::string_view help;
  bool has_times = true;
  bool has_ops = true;
  bool has_content = false;
  bool has_latency = false;
  // True when a file with this beginning can be nothing else; null when it never is certain.
  bool (*certain)(std::string_view head) = nullptr;
  MakeParser make_parser = nullptr;
  uint16_t blktrace_event = 0;  // binary blktrace instead of a parser: see blktrace.h
};

// Each family's formats.
std::span<const TraceFormat> BlkparseFormats();   // blkparse.cc
std::span<const TraceFormat> CacheFormats();      // cache.cc: libCacheSim, ARC, LIRS, Tectonic
std::span<const TraceFormat> CloudFormats();      // cloud.cc: Alibaba, Tencent, SYSTOR'17
std::span<const TraceFormat> FiuFormats();        // fiu.cc
std::span<const TraceFormat> HfplayerFormats();   // hfplayer.cc
std::span<const TraceFormat> IologFormats();      // iolog.cc
std::span<const TraceFormat> ServerFormats();     // server.cc: MSR Cambridge, Heimdall, SPC
std::span<const TraceFormat> SimulatorFormats();  // simulator.cc: SSDsim, MQSim, DiskSim
std::span<const TraceFormat> VscsiFormats();      // vscsi.cc

// A parser that keeps no state between entries.
template <Entry (*kParse)(std::string_view, trace::TraceRecord*), size_t kRecordBytes = 0>
std::unique_ptr<EntryParser> MakeStatelessParser(const TraceOptions& /*options*/) {
  class Parser final : public EntryParser {
   public:
    size_t record_bytes() const override { return kRecordBytes; }
    Entry Parse(std::string_view entry, trace::TraceRecord* record) override {
      return kParse(entry, record);
    }
  };
  return std::make_unique<Parser>();
}

}  // namespace ebb::env
