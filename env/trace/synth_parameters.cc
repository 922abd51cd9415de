// The parameters of synthesised loads by name, and presets made of them.
#include <array>
#include <charconv>
#include <string>
#include <system_error>

#include "base/nearest.h"
#include "base/status.h"
#include "base/units.h"
#include "env/trace/formats/fields.h"
#include "env/trace/synth.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace ebb::env {
namespace {

absl::Status SetDuration(std::string_view value, uint64_t* ns) {
  EBB_ASSIGN_OR_RETURN(*ns, ParseDurationNs(value));
  return absl::OkStatus();
}

absl::Status SetBytes(std::string_view value, uint64_t* bytes) {
  EBB_ASSIGN_OR_RETURN(*bytes, ParseBytes(value));
  return absl::OkStatus();
}

absl::Status SetCount(std::string_view value, uint64_t* count) {
  if (ParseNumber(value, count)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("'{}' is no number", value));
}

absl::Status SetReal(std::string_view value, double* real) {
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, *real);
  if (error == std::errc{} && stop == end) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("'{}' is no number", value));
}

// "4k", or "4k:60/64k:40" with weights.
absl::Status SetSizes(std::string_view value, SynthSizes* sizes) {
  sizes->clear();
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find('/', begin), value.size());
    const std::string_view part = value.substr(begin, end - begin);
    const size_t colon = part.find(':');
    std::pair<uint64_t, double> size{0, 1};
    EBB_RETURN_IF_ERROR(SetBytes(part.substr(0, colon), &size.first));
    if (colon != part.npos) EBB_RETURN_IF_ERROR(SetReal(part.substr(colon + 1), &size.second));
    sizes->push_back(size);
    begin = end + 1;
  }
  return absl::OkStatus();
}

constexpr std::array kParameters = {
    SynthParameter{
        "duration", "how long the phase lasts, e.g. 60s",
        [](std::string_view v, SynthPhase* p) { return SetDuration(v, &p->duration_ns); }},
    SynthParameter{"block", "block size, e.g. 8k; or several with weights: 4k:60/64k:40",
                   [](std::string_view v, SynthPhase* p) { return SetSizes(v, &p->sizes); }},
    SynthParameter{"write-block", "block size of writes, where it differs from that of reads",
                   [](std::string_view v, SynthPhase* p) { return SetSizes(v, &p->write_sizes); }},
    SynthParameter{
        "burst", "requests in a burst",
        [](std::string_view v, SynthPhase* p) { return SetCount(v, &p->burst_requests); }},
    SynthParameter{"gap", "from a burst to the next, e.g. 10ms",
                   [](std::string_view v, SynthPhase* p) { return SetDuration(v, &p->gap_ns); }},
    SynthParameter{"outstanding", "requests of a burst that come at once",
                   [](std::string_view v, SynthPhase* p) { return SetCount(v, &p->outstanding); }},
    SynthParameter{
        "service", "from those to the next ones of the burst, e.g. 100us",
        [](std::string_view v, SynthPhase* p) { return SetDuration(v, &p->service_ns); }},
    SynthParameter{"rate", "requests a second, by chance, instead of bursts and gaps; 0: those",
                   [](std::string_view v, SynthPhase* p) { return SetReal(v, &p->ops_per_s); }},
    SynthParameter{"duty", "share of each period in which all requests of a rate come",
                   [](std::string_view v, SynthPhase* p) { return SetReal(v, &p->duty); }},
    SynthParameter{"period", "see duty, e.g. 1s",
                   [](std::string_view v, SynthPhase* p) { return SetDuration(v, &p->period_ns); }},
    SynthParameter{"read", "share of reads, 0 to 1",
                   [](std::string_view v, SynthPhase* p) { return SetReal(v, &p->read_share); }},
    SynthParameter{"random", "share of random requests, 0 to 1; others go on where the last ended",
                   [](std::string_view v, SynthPhase* p) { return SetReal(v, &p->random_share); }},
    SynthParameter{"streams", "sequential requests go on with one of so many streams instead",
                   [](std::string_view v, SynthPhase* p) { return SetCount(v, &p->streams); }},
    SynthParameter{
        "working-set", "bytes that are touched, e.g. 1G",
        [](std::string_view v, SynthPhase* p) { return SetBytes(v, &p->working_set_bytes); }},
    SynthParameter{"offset", "where they begin",
                   [](std::string_view v, SynthPhase* p) { return SetBytes(v, &p->offset_bytes); }},
    SynthParameter{"zipf", "skew of places; 0: uniform",
                   [](std::string_view v, SynthPhase* p) { return SetReal(v, &p->zipf_skew); }},
    SynthParameter{"drift", "share of the working set by which the hot places move in a second",
                   [](std::string_view v, SynthPhase* p) { return SetReal(v, &p->drift_per_s); }},
    SynthParameter{
        "duplicate", "share of written blocks that copy one written lately",
        [](std::string_view v, SynthPhase* p) { return SetReal(v, &p->duplicate_share); }},
    SynthParameter{
        "compressible", "share of written blocks that shrink to a third",
        [](std::string_view v, SynthPhase* p) { return SetReal(v, &p->compressible_share); }},
    SynthParameter{"flush-every", "a flush after so many writes; 0: none",
                   [](std::string_view v, SynthPhase* p) { return SetCount(v, &p->flush_every); }},
};

constexpr std::array kPresets = {
    SynthPreset{"iometer-database", "IOmeter database: 8 KiB, 67 % read, all random",
                "block=8k,read=0.67,burst=64,outstanding=16,gap=10ms"},
    SynthPreset{"iometer-file-server",
                "IOmeter file server: 512 B to 64 KiB, 80 % read, all random",
                "block=512:10/1k:5/2k:5/4k:60/8k:2/16k:4/32k:4/64k:10,read=0.8,burst=64,"
                "outstanding=16,gap=10ms"},
    SynthPreset{
        "iometer-web-server", "IOmeter web server: 512 B to 512 KiB, all read, all random",
        "block=512:22/1k:15/2k:8/4k:23/8k:15/16k:2/32k:6/64k:7/128k:1/512k:1,read=1,burst=64,"
        "outstanding=16,gap=10ms"},
    SynthPreset{"iometer-workstation", "IOmeter workstation: 8 KiB, 80 % read, 80 % random",
                "block=8k,read=0.8,random=0.8,burst=16,outstanding=4,gap=10ms"},
    SynthPreset{"hcibench-4k-70", "HCIBench easy run: 4 KiB, 70 % read, all random",
                "block=4k,read=0.7,burst=64,outstanding=32,gap=5ms"},
    SynthPreset{"hcibench-4k-read", "HCIBench easy run: 4 KiB, all read, all random",
                "block=4k,read=1,burst=64,outstanding=32,gap=5ms"},
    SynthPreset{"hcibench-8k-50", "HCIBench easy run: 8 KiB, 50 % read, all random",
                "block=8k,read=0.5,burst=64,outstanding=32,gap=5ms"},
    SynthPreset{"hcibench-256k-write", "HCIBench easy run: 256 KiB, all write, sequential",
                "block=256k,read=0,random=0,burst=16,outstanding=8,gap=20ms"},
};

}  // namespace

std::span<const SynthParameter> SynthParameters() { return kParameters; }
std::span<const SynthPreset> SynthPresets() { return kPresets; }

absl::Status SetSynthParameter(std::string_view name, std::string_view value, SynthPhase* phase) {
  std::vector<std::string_view> names;
  for (const SynthParameter& parameter : kParameters) {
    if (parameter.name == name) {
      return Annotate(parameter.set(value, phase), fmt::format("synth: {}", name));
    }
    names.push_back(parameter.name);
  }
  const std::string_view near = NearestWord(name, names);
  return absl::InvalidArgumentError(fmt::format(
      "synth: there is no parameter '{}'{}; there are {}", name,
      near.empty() ? "" : fmt::format(", did you mean '{}'?", near), fmt::join(names, ", ")));
}

absl::Status SetSynthParameters(std::string_view list, SynthPhase* phase) {
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view part = list.substr(begin, end - begin);
    const size_t equals = part.find('=');
    if (equals == part.npos) {
      return absl::InvalidArgumentError(fmt::format("synth: '{}' is not NAME=VALUE", part));
    }
    EBB_RETURN_IF_ERROR(SetSynthParameter(part.substr(0, equals), part.substr(equals + 1), phase));
    begin = end + 1;
  }
  return absl::OkStatus();
}

}  // namespace ebb::env
