// The incumbent on record: a small checksummed JSON file in the node's state folder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/knobs/knobs.h"

namespace ebb::storage {

struct IncumbentRecord {
  uint64_t version = 0;
  Setting setting;
};

// Durable and atomic: after any crash the file holds the old record or the new one.
absl::Status WriteIncumbent(const std::string& path, const IncumbentRecord& record);

// NotFound when there is none, DataLoss when it is damaged. Knobs that the record does not name
// take their default; those that this version no longer has are left out.
absl::StatusOr<IncumbentRecord> ReadIncumbent(const std::string& path);

}  // namespace ebb::storage
