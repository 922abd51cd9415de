#include "experiments/fidelity_bench/workload.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "absl/container/flat_hash_map.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/trace/trace_content.h"
#include "env/trace/synth.h"
#include "env/trace/trace_source.h"
#include "fmt/format.h"

namespace ebb::fidelity_bench {
namespace {

using trace::kTraceBlockBytes;
using trace::TraceOp;
using trace::TraceRecord;

constexpr uint64_t kRequestBytesMax = kMiB;
constexpr uint64_t kDeviceStrideBytes = 53 * kMiB;  // of a trace's several devices, on the volume

struct SynthSpec {
  const char* name;
  const char* what;
  double ops_per_s;
  const char* parameters;  // of env/trace's synth
  NodeShape shape;
};

struct TraceSpec {
  const char* name;
  const char* what;
  const char* file;
  const char* format;
  double speed;
  NodeShape shape;
};

std::vector<SynthSpec> SynthSpecs() {
  const NodeShape flash;
  NodeShape disks;
  disks.capacity_model = "disk-7200";
  disks.capacity_speed = 8;
  // One device, so slow that what is written soon waits for it.
  NodeShape slow_flash;
  slow_flash.capacity_count = 1;
  slow_flash.capacity_bytes = 640 * kMiB;
  slow_flash.capacity_speed = 0.12;
  return {
      {"mixed", "70 % reads, 4 and 16 KiB, Zipf 0.9, flash", 2'500,
       "block=4k:3/16k:1,read=0.7,working-set=160M,zipf=0.9,duplicate=0.1,compressible=0.7", flash},
      {"writes", "80 % writes, 4 to 64 KiB, Zipf 0.6, flushes, one slow flash device", 3'600,
       "block=4k:2/16k:1/64k:1,read=0.2,working-set=128M,zipf=0.6,duplicate=0.2,"
       "compressible=0.5,flush-every=100",
       slow_flash},
      {"disks", "60 % reads, 8 KiB, Zipf 0.6, disks made 8 times faster", 1'400,
       "block=8k,read=0.6,working-set=160M,zipf=0.6,compressible=0.7", disks}};
}

std::vector<TraceSpec> TraceSpecs() {
  const NodeShape flash;
  NodeShape disks;
  disks.capacity_model = "disk-7200";
  disks.capacity_speed = 8;
  return {{"msr", "MSR server, 40 % reads, unaligned, 16 times faster, flash",
           "msr_rw40_60.heimdall.zst", "heimdall", 16, flash},
          {"websearch", "search engine, reads only, 4 times faster, disks made 8 times faster",
           "websearch_small.mqsim.zst", "mqsim", 4, disks},
          {"ext4", "files copied to ext4, writes with their duplicates, 2 times faster, flash",
           "rec_ext4_dedup_part1.fiu.zst", "fiu", 2, flash}};
}

// Into the volume, whole in it, not longer than a request may be.
void Fit(uint64_t volume_bytes, TraceRecord& record) {
  if (record.op == TraceOp::kFlush) return;
  record.bytes = std::min(record.bytes, kRequestBytesMax);
  record.offset = (record.offset + record.device * kDeviceStrideBytes) % volume_bytes;
  if (record.offset + record.bytes > volume_bytes) record.offset = volume_bytes - record.bytes;
  record.device = 0;
}

// Writes of unknown content get one each: new, and shrinking as what was there before.
void FillContent(uint64_t& counter, TraceRecord& record) {
  if (record.op != TraceOp::kWrite) {
    record.fingerprints.clear();
    return;
  }
  const uint64_t blocks = trace::BlocksTouched(record.offset, record.bytes);
  record.fingerprints.resize(std::min<uint64_t>(record.fingerprints.size(), blocks));
  double per_mille = 0;
  while (record.fingerprints.size() < blocks) {
    record.fingerprints.push_back((++counter + (uint64_t{1} << 40)) << 4 | kPrefillLevel);
  }
  for (const uint64_t fingerprint : record.fingerprints) {
    const double level = static_cast<double>(fingerprint & 15);
    per_mille += fingerprint == 0 ? 0 : level == 15 ? 1000 : (2 * level + 1) / 32 * 1000;
  }
  record.compressed_per_mille =
      static_cast<uint16_t>(per_mille / static_cast<double>(std::max<uint64_t>(blocks, 1)));
}

void Finish(Workload& workload) {
  uint64_t counter = 0;
  absl::flat_hash_map<uint64_t, uint32_t> uses;
  for (TraceRecord& record : workload.records) {
    Fit(workload.shape.volume_bytes, record);
    FillContent(counter, record);
    for (const uint64_t fingerprint : record.fingerprints) ++uses[fingerprint];
  }
  for (const TraceRecord& record : workload.records) {
    std::vector<bool>& keeps = workload.keeps_content.emplace_back();
    for (const uint64_t fingerprint : record.fingerprints) keeps.push_back(uses[fingerprint] > 1);
  }
}

absl::StatusOr<Workload> MakeSynth(const SynthSpec& spec, double seconds) {
  Workload workload{.name = spec.name, .what = spec.what, .shape = spec.shape};
  env::SynthOptions options;
  options.seed = 11;
  options.requests_max = static_cast<uint64_t>(spec.ops_per_s * seconds);
  EBB_RETURN_IF_ERROR(env::SetSynthParameters(spec.parameters, &options.phases.front()));
  EBB_ASSIGN_OR_RETURN(const auto source, env::MakeSynthSource(options));
  // Arrivals of many independent clients.
  Rng rng(23);
  double now_ns = 0;
  TraceRecord record;
  for (;;) {
    EBB_ASSIGN_OR_RETURN(const bool more, source->Next(&record));
    if (!more) break;
    now_ns += -std::log(1 - rng.Uniform()) / spec.ops_per_s * 1e9;
    record.time_ns = static_cast<uint64_t>(now_ns);
    workload.records.push_back(record);
  }
  workload.duration_ns = static_cast<uint64_t>(now_ns) + 1;
  Finish(workload);
  return workload;
}

absl::StatusOr<Workload> MakeRecorded(const TraceSpec& spec, const std::string& path,
                                      double seconds) {
  Workload workload{.name = spec.name, .what = spec.what, .recorded = true, .shape = spec.shape};
  EBB_ASSIGN_OR_RETURN(const auto source, env::OpenTrace(path, spec.format));
  TraceRecord record;
  const auto end_ns = static_cast<uint64_t>(seconds * 1e9);
  for (;;) {
    EBB_ASSIGN_OR_RETURN(const bool more, source->Next(&record));
    if (!more) break;
    record.time_ns = static_cast<uint64_t>(static_cast<double>(record.time_ns) / spec.speed);
    if (record.time_ns >= end_ns) break;
    if (record.bytes == 0 && record.op != TraceOp::kFlush) continue;
    workload.records.push_back(record);
    workload.duration_ns = record.time_ns + 1;
  }
  if (workload.records.empty()) {
    return absl::InvalidArgumentError(fmt::format("{} has no requests", path));
  }
  Finish(workload);
  return workload;
}

}  // namespace

twin::RequestStream Workload::Stream() const {
  twin::RequestStream stream(shape.volume_bytes);
  for (const TraceRecord& record : records) stream.Add(record);
  stream.Close(duration_ns);
  return stream;
}

AlignedBuffer Workload::ContentSample() const {
  constexpr size_t kBlocks = 1024;
  std::vector<uint64_t> chosen;
  for (const TraceRecord& record : records) {
    chosen.insert(chosen.end(), record.fingerprints.begin(), record.fingerprints.end());
    if (chosen.size() >= kBlocks) break;
  }
  for (uint64_t number = 1; chosen.size() < kBlocks; ++number) {
    chosen.push_back(number << 4 | kPrefillLevel);
  }
  AlignedBuffer sample(kBlocks * trace::kTraceBlockBytes);
  for (size_t i = 0; i < kBlocks; ++i) {
    trace::MakeContent(chosen[i],
                       sample.span(i * trace::kTraceBlockBytes, trace::kTraceBlockBytes));
  }
  return sample;
}

absl::StatusOr<std::vector<Workload>> MakeWorkloads(const std::string& trace_dir, double seconds,
                                                    std::vector<std::string>& skipped) {
  std::vector<Workload> workloads;
  for (const SynthSpec& spec : SynthSpecs()) {
    EBB_ASSIGN_OR_RETURN(Workload workload, MakeSynth(spec, seconds));
    workloads.push_back(std::move(workload));
  }
  for (const TraceSpec& spec : TraceSpecs()) {
    const std::string path = fmt::format("{}/{}", trace_dir, spec.file);
    if (!std::filesystem::exists(path)) {
      skipped.push_back(fmt::format("{}: {} is not there", spec.name, path));
      continue;
    }
    EBB_ASSIGN_OR_RETURN(Workload workload, MakeRecorded(spec, path, seconds));
    workloads.push_back(std::move(workload));
  }
  return workloads;
}

}  // namespace ebb::fidelity_bench
