// Every parser of foreign traces, zstd and gzip, and the detection of formats. The first byte picks
// the format, the second how the rest is dealt out.
#include <memory>
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

}  // namespace

void Run(Bytes input) {
  static const std::vector<env::TraceFormatInfo> formats = env::TraceFormats();
  const size_t choice = TakeByte(input) % formats.size();
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
