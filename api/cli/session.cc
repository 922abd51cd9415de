#include "api/cli/session.h"

#include <cstdio>

namespace ebb::cli {

void Session::Print(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void Session::Note(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fputc('\n', stderr);
}

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return 2;
    case absl::StatusCode::kUnavailable:
      return 3;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
      return 4;
    default:
      return 1;
  }
}

}  // namespace ebb::cli
