// What the tests of trace formats share: a text as a trace, all records of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "env/trace/open_stream.h"
#include "gtest/gtest.h"

namespace ebb::env {

struct ReadResult {
  absl::Status status;
  std::vector<trace::TraceRecord> records;
  TraceCounts counts;
  TraceTraits traits;
};

inline ReadResult ReadAll(TraceSource& source) {
  ReadResult result;
  trace::TraceRecord record;
  for (;;) {
    const absl::StatusOr<bool> more = source.Next(&record);
    if (!more.ok()) result.status = more.status();
    if (!more.ok() || !*more) break;
    result.records.push_back(record);
  }
  result.counts = source.counts();
  result.traits = source.traits();
  return result;
}

// The files `bytes`, stored as they are or compressed, read as `format`.
inline ReadResult ReadFilesAs(std::string_view format, std::vector<std::string> files,
                              const TraceOptions& options = {}) {
  const auto found = FindFormat(format);
  if (!found.ok()) return {found.status(), {}, {}, {}};
  std::vector<std::unique_ptr<ByteStream>> streams;
  for (std::string& bytes : files) {
    auto stream = ByteStream::FromMemory(std::move(bytes), "sample");
    if (!stream.ok()) return {stream.status(), {}, {}, {}};
    streams.push_back(*std::move(stream));
  }
  auto source = OpenStreams(std::move(streams), **found, options);
  if (!source.ok()) return {source.status(), {}, {}, {}};
  return ReadAll(**source);
}

inline ReadResult ReadAs(std::string_view format, std::string bytes,
                         const TraceOptions& options = {}) {
  return ReadFilesAs(format, {std::move(bytes)}, options);
}

}  // namespace ebb::env
