// Every parser of foreign traces, zstd and gzip, and the detection of formats. The first byte picks
// the format unless EBB_FUZZ_FORMAT does, the second how the rest is dealt out. With
// EBB_FUZZ_LIST=1 the formats are listed instead: run.sh gives each its time.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "env/trace/open_stream.h"
#include "tests/fuzz/fuzz_input.h"

namespace ebb::fuzz {
namespace {

// What every source promises about what it hands out.
void ReadAll(env::TraceSource& source) {
  trace::TraceRecord record;
  uint64_t last_ns = 0;
  uint64_t records = 0;
  for (;;) {
    const absl::StatusOr<bool> more = source.Next(&record);
    if (!more.ok() || !*more) break;
    ++records;
    Require(record.time_ns >= last_ns);
    last_ns = record.time_ns;
    Require(record.offset + record.bytes >= record.offset);
    Require(record.fingerprints.empty() ||
            record.fingerprints.size() == trace::BlocksTouched(record.offset, record.bytes));
    Require(record.compressed_per_mille <= 1000);
  }
  Require(source.counts().records == records);
  Require(source.counts().samples.size() <= source.counts().broken);
}

const std::vector<env::TraceFormatInfo>& Formats() {
  static const std::vector<env::TraceFormatInfo> formats = env::TraceFormats();
  return formats;
}

// That of EBB_FUZZ_FORMAT; the number of formats where none is asked for.
size_t FixedFormat() {
  const char* wanted = std::getenv("EBB_FUZZ_FORMAT");
  if (wanted == nullptr) return Formats().size();
  for (size_t i = 0; i < Formats().size(); ++i) {
    if (Formats()[i].name == std::string_view(wanted)) return i;
  }
  std::fprintf(stderr, "there is no format %s\n", wanted);
  std::abort();
}

}  // namespace

void Run(Bytes input) {
  static const size_t fixed = FixedFormat();
  const std::vector<env::TraceFormatInfo>& formats = Formats();
  const uint8_t first_byte = TakeByte(input);
  const size_t choice = fixed < formats.size() ? fixed : first_byte % formats.size();
  const uint8_t flags = TakeByte(input);
  std::vector<std::unique_ptr<env::ByteStream>> streams;
  // Two files where the flags say so: blktrace merges them.
  const bool two = (flags & 1) != 0 && formats[choice].name.starts_with("blktrace");
  const Bytes first = input.first(two ? input.size() / 2 : input.size());
  for (const Bytes part : {first, input.subspan(first.size())}) {
    if (!streams.empty() && !two) break;
    auto stream = env::ByteStream::FromMemory(ToString(part), "fuzz");
    Require(stream.ok());
    streams.push_back(*std::move(stream));
  }
  absl::StatusOr<const env::TraceFormat*> format = env::FindFormat(formats[choice].name);
  Require(format.ok());
  if ((flags & 2) != 0) {
    format = env::DetectFormat(*streams.front());
    if (!format.ok()) return;
  }
  auto source =
      env::OpenStreams(std::move(streams), **format,
                       {.broken_share_max = 1, .iolog_wait_is_ms_since_start = (flags & 4) != 0});
  if (source.ok()) ReadAll(**source);
}

}  // namespace ebb::fuzz

extern "C" __attribute__((used)) int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  if (std::getenv("EBB_FUZZ_LIST") == nullptr) return 0;
  for (const ebb::env::TraceFormatInfo& format : ebb::env::TraceFormats()) {
    std::printf("%.*s\n", static_cast<int>(format.name.size()), format.name.data());
  }
  std::exit(0);
}
