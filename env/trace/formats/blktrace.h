// Binary blktrace: one file for each CPU, merged by time.
//
//   48 bytes: u32 magic 0x65617407 (its low byte is the version), u32 sequence, u64 time in ns,
//             u64 sector, u32 bytes, u32 action, u32 pid, u32 device (major << 20 | minor),
//             u32 cpu, u16 error, u16 n = bytes of data that follow
//   n bytes
//
// In the byte order of the machine that recorded, which the magic tells.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "env/trace/byte_stream.h"
#include "env/trace/trace_source.h"

namespace ebb::env {

// The event that counts as the request, in the low bits of an action.
inline constexpr uint16_t kBlktraceQueue = 1;  // Q: what was asked for
inline constexpr uint16_t kBlktraceIssue = 7;  // D: what went to the device, merged

// True for the first bytes of a blktrace file of either byte order.
bool IsBlktrace(std::string_view head);

// The files that belong to `path`: NAME.blktrace.N of every N (perhaps with .zst or .gz), where
// `path` is one of them, or NAME, or else any file. NotFound when there is none.
absl::StatusOr<std::vector<std::string>> FindBlktraceFiles(const std::string& path);

std::unique_ptr<TraceSource> MakeBlktraceSource(std::vector<std::unique_ptr<ByteStream>> files,
                                                uint16_t event, TraceTraits traits,
                                                const TraceOptions& options);

}  // namespace ebb::env
