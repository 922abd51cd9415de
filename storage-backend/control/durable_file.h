// Small files that a power cut or kill -9 leaves either old or new, never torn.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebb::storage {

// Replaces `path` by `content`: writes `path`.tmp, fsyncs it, renames it over, fsyncs the folder.
absl::Status WriteFileDurably(const std::string& path, std::string_view content);

// The whole file; NotFound when there is none.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// The CRC32C of `text` as eight hexadecimal digits.
std::string Crc32cHex(std::string_view text);

}  // namespace ebb::storage
