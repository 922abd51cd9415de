// Sources that undo a compression: what ByteStream puts over a stored file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "env/trace/byte_stream.h"

namespace ebb::env {

// `stored`, decompressed when `head`, its first bytes, say that it is zstd or gzip. `head` has been
// read from `stored` already and comes first.
absl::StatusOr<std::unique_ptr<ByteStream::Source>> Decompressed(
    std::unique_ptr<ByteStream::Source> stored, std::string_view head, const std::string& name);

}  // namespace ebb::env
