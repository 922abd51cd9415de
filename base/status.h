// Helpers around absl::Status: context added once per layer, errno turned into words.
//
// Conventions: few codes, because callers branch on codes and people read messages.
//   InvalidArgument  the caller's input is wrong          NotFound      no such thing
//   OutOfRange       beyond the end of a device/volume    DataLoss      checksum or format mismatch
//   ResourceExhausted no space (ENOSPC)                   Unavailable   peer or device gone, try
//   later FailedPrecondition refused in this state              Aborted       stale version:
//   re-read and retry Internal         an I/O error (EIO)
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebb {

// `status` with "context: " put before its message; the code stays.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// The status for an errno value, e.g. ErrnoStatus(ENOSPC, "write cache.img") is
// ResourceExhausted "write cache.img: No space left on device".
absl::Status ErrnoStatus(int error_number, std::string_view context);

// The errno an NBD client should see for `status`; 0 for OK.
int StatusToErrno(const absl::Status& status);

}  // namespace ebb

#define EBB_STATUS_CONCAT_INNER(a, b) a##b
#define EBB_STATUS_CONCAT(a, b) EBB_STATUS_CONCAT_INNER(a, b)

#define EBB_RETURN_IF_ERROR(expression)                                              \
  do {                                                                               \
    if (absl::Status ebb_status = (expression); !ebb_status.ok()) return ebb_status; \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses.
#define EBB_ASSIGN_OR_RETURN(declaration, expression)                    \
  auto EBB_STATUS_CONCAT(ebb_result_, __LINE__) = (expression);          \
  if (!EBB_STATUS_CONCAT(ebb_result_, __LINE__).ok())                    \
    return std::move(EBB_STATUS_CONCAT(ebb_result_, __LINE__)).status(); \
  declaration = *std::move(EBB_STATUS_CONCAT(ebb_result_, __LINE__))
// NOLINTEND(bugprone-macro-parentheses)
