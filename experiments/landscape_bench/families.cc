#include "experiments/landscape_bench/families.h"

#include <algorithm>
#include <memory>

#include "base/status.h"
#include "base/units.h"
#include "env/trace/block_sample.h"
#include "env/trace/synth.h"
#include "fmt/format.h"

namespace ebb::landscape_bench {
namespace {

absl::StatusOr<env::SynthPhase> MakePhase(const FamilyStream& stream, std::string_view parameters,
                                          double ops_per_s, double seconds) {
  env::SynthPhase phase;
  for (const env::SynthPreset& preset : env::SynthPresets()) {
    if (preset.name != stream.preset) continue;
    EBB_RETURN_IF_ERROR(env::SetSynthParameters(preset.parameters, &phase));
  }
  EBB_RETURN_IF_ERROR(env::SetSynthParameters(parameters, &phase));
  phase.ops_per_s *= ops_per_s;
  phase.duration_ns = static_cast<uint64_t>(seconds * 1e9);
  return phase;
}

// One stream of a family, with its next record at hand.
struct Merged {
  std::unique_ptr<env::TraceSource> source;
  trace::TraceRecord next;
  bool more = false;
};

}  // namespace

std::span<const Family> Families() {
  static const std::vector<Family> families = {
      {"oltp",
       "database: 8 KiB pages of a skewed set, and a log that is flushed at each commit",
       0.6,
       {{"iometer-database", {"rate=0.9,working-set=2G,zipf=0.9,compressible=0.7"}},
        {"",
         {"rate=0.1,block=16k,read=0,random=0,working-set=128M,offset=3G,flush-every=1,"
          "compressible=0.7"}}}},
      {"database-uniform",
       "IOmeter database: 8 KiB, 67 % reads, uniform over six times the cache",
       0.6,
       {{"iometer-database", {"rate=1,working-set=3G,compressible=0.5"}}}},
      {"file-server",
       "IOmeter file server behind a file system of 4 KiB blocks: to 64 KiB, 80 % reads, skewed",
       0.6,
       {{"iometer-file-server",
         {"rate=1,block=4k:80/8k:2/16k:4/32k:4/64k:10,working-set=2G,zipf=0.8,"
          "compressible=0.5"}}}},
      {"web-server",
       "IOmeter web server behind a file system of 4 KiB blocks: to 512 KiB, reads only, skewed",
       0.6,
       {{"iometer-web-server",
         {"rate=1,block=4k:68/8k:15/16k:2/32k:6/64k:7/128k:1/512k:1,working-set=2G,zipf=0.9"}}}},
      {"hci-4k-70",
       "HCIBench: 4 KiB, 70 % reads, uniform over little more than the cache",
       0.6,
       {{"hcibench-4k-70", {"rate=1,working-set=640M,compressible=0.5"}}}},
      {"hci-8k-50",
       "HCIBench: 8 KiB, half writes, uniform over thrice the cache",
       0.6,
       {{"hcibench-8k-50", {"rate=1,working-set=1536M,compressible=0.5"}}}},
      {"backup",
       "backup target: 64 KiB sequential writes in two streams, a few restores",
       0.6,
       {{"hcibench-256k-write",
         {"rate=1,block=64k,read=0.05,streams=2,working-set=3G,compressible=0.6,"
          "duplicate=0.2"}}}},
      {"boot-storm",
       "hundred clones of one image booting at once: short runs of reads, few writes, in bursts",
       0.4,
       {{"",
         {"rate=1,block=4k:4/16k:3/64k:2,write-block=4k,read=0.93,random=0.5,streams=32,"
          "working-set=1G,zipf=0.7,duty=0.3,period=8s,duplicate=0.5,compressible=0.6"}}}},
      {"vdi",
       "virtual desktops at work: small writes, half of them known content, in bursts",
       0.3,
       {{"",
         {"rate=1,block=4k:6/16k:2/32k:1,read=0.25,random=0.8,working-set=2G,zipf=1,duty=0.4,"
          "period=5s,flush-every=32,duplicate=0.5,compressible=0.6"}}}},
      {"log-writer",
       "message broker: appended in short bursts of 16 KiB and flushed, read again by followers",
       0.3,
       {{"",
         {"rate=0.8,block=16k,read=0,random=0,streams=4,working-set=2G,flush-every=8,duty=0.15,"
          "period=6s,compressible=0.8"}},
        {"", {"rate=0.2,block=64k,read=1,random=0,streams=4,working-set=2G"}}}},
      {"clones",
       "images copied again and again: 64 KiB writes of which most repeat, some reads",
       0.5,
       {{"",
         {"rate=1,block=16k,write-block=64k,read=0.5,random=0.3,streams=8,working-set=2G,"
          "zipf=0.7,duplicate=0.8,compressible=0.5"}}}},
      {"analytics",
       "tables that shrink to a third: 32 KiB scans in four streams, batches of writes",
       0.6,
       {{"",
         {"rate=0.7,block=32k,read=1,random=0.1,streams=4,working-set=3G,zipf=0.8",
          "rate=1.3,block=32k,read=0.6,random=0.5,streams=4,working-set=3G,zipf=0.8,"
          "compressible=1"}}}},
      {"day-and-night",
       "a day in four parts: office hours whose hot set wanders, reports, backup reads, idle",
       0.5,
       {{"",
         {"rate=1.2,block=8k,read=0.7,working-set=1536M,zipf=1,drift=0.002,compressible=0.6",
          "rate=1.2,block=8k:1/64k:1,read=0.9,random=0.3,working-set=2G,zipf=0.6",
          "rate=1.2,block=64k,read=0.95,random=0,streams=2,working-set=3G",
          "rate=0.4,block=4k,read=0.3,working-set=1G,zipf=1,flush-every=16,compressible=0.6"}}}},
      {"scan-and-hot-set",
       "hot 4 KiB blocks, half the cache, beside a scan that never returns in time",
       0.5,
       {{"", {"rate=0.85,read=0.75,working-set=256M,zipf=0.8,compressible=0.6"}},
        {"", {"rate=0.15,block=64k,read=1,random=0,working-set=3G"}}}},
      {"ingest",
       "telemetry: small writes to everywhere, hardly ever twice, and few reads",
       0.6,
       {{"",
         {"rate=1,block=4k,write-block=4k:1/16k:1,read=0.1,working-set=3G,zipf=0.3,"
          "flush-every=64,compressible=0.7"}}}},
      {"overwrites",
       "counters: nine in ten requests write, to few blocks again and again",
       0.6,
       {{"", {"rate=1,read=0.1,working-set=512M,zipf=1.1,flush-every=64,compressible=0.6"}}}},
  };
  return families;
}

absl::StatusOr<twin::RequestStream> MakeFamilyLoad(const Family& family, double ops_per_s,
                                                   double seconds, uint64_t volume_bytes,
                                                   uint64_t seed) {
  std::vector<Merged> streams;
  for (const FamilyStream& stream : family.streams) {
    env::SynthOptions options{.seed = env::MixBits(seed * 64 + streams.size()), .phases = {}};
    // Twice round: warmed up by the first half, a run measures the second.
    const double phase_seconds = seconds / 2 / static_cast<double>(stream.phases.size());
    options.duration_ns = static_cast<uint64_t>(seconds * 1e9);
    for (const std::string_view parameters : stream.phases) {
      EBB_ASSIGN_OR_RETURN(options.phases.emplace_back(),
                           MakePhase(stream, parameters, ops_per_s, phase_seconds));
    }
    Merged& one = streams.emplace_back();
    EBB_ASSIGN_OR_RETURN(one.source, env::MakeSynthSource(options));
    if (one.source->traits().volume_bytes > volume_bytes) {
      return absl::InvalidArgumentError(
          fmt::format("{} does not fit {}", family.name, FormatBytes(volume_bytes)));
    }
    EBB_ASSIGN_OR_RETURN(one.more, one.source->Next(&one.next));
  }
  twin::RequestStream load(volume_bytes);
  for (;;) {
    Merged* first = nullptr;
    for (Merged& one : streams) {
      if (one.more && (first == nullptr || one.next.time_ns < first->next.time_ns)) first = &one;
    }
    if (first == nullptr) break;
    load.Add(first->next);
    EBB_ASSIGN_OR_RETURN(first->more, first->source->Next(&first->next));
  }
  load.Close(static_cast<uint64_t>(seconds * 1e9));
  return load;
}

}  // namespace ebb::landscape_bench
