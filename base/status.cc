#include "base/status.h"

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"

namespace ebb {

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(std::string(context), ": ", std::string(status.message())));
}

absl::Status ErrnoStatus(int error_number, std::string_view context) {
  // absl names the code; the message reads "context: No space left on device".
  return absl::ErrnoToStatus(error_number, std::string(context));
}

int StatusToErrno(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return EINVAL;
    case absl::StatusCode::kResourceExhausted:
      return ENOSPC;
    case absl::StatusCode::kPermissionDenied:
      return EPERM;
    case absl::StatusCode::kUnavailable:
      return ESHUTDOWN;
    case absl::StatusCode::kUnimplemented:
      return ENOTSUP;
    default:
      return EIO;
  }
}

}  // namespace ebb
