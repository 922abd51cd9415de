#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {

const char* TableName(Table table) {
  switch (table) {
    case Table::kMap:
      return "map";
    case Table::kJournal:
      return "journal";
    case Table::kUnits:
      return "units";
    case Table::kFingerprints:
      return "fingerprints";
    case Table::kSegments:
      return "segments";
    case Table::kExtents:
      return "extents";
    case Table::kNode:
      return "node";
  }
  return "unknown";
}

}  // namespace ebb::storage
