// MetadataModel: which look-ups of the capacity tier's map miss memory, and what a commit writes.
//
// As storage-backend/capacity: a bounded cache of map pages (a clock), a small one of unit records,
// and a journal whose length decides when changed pages are written back.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "env/twin/node_model.h"

namespace ebb::twin {

class MetadataModel {
 public:
  // `divisor`: the node's memory is that much smaller.
  MetadataModel(const MetadataCosts& costs, uint32_t page_count, double divisor);

  // Looks page `page` of the map up; false: it had to come from the metadata store.
  bool TouchPage(uint32_t page);
  // The same for a unit's record.
  bool TouchUnit(uint32_t unit);

  // Block `page` belongs to is changed by the commit under way.
  void ChangeBlock(uint32_t page);
  // Ends the commit that changed those: bytes that go to the metadata store.
  double Commit(uint64_t other_bytes);

 private:
  struct Page {
    uint32_t dirty_since = 0;  // commit number; 0: clean
    bool cached = false;
    bool referenced = false;
  };
  struct DirtyPage {
    uint32_t page;
    uint32_t since;
  };

  void Insert(uint32_t page);

  const MetadataCosts costs_;
  const uint64_t cached_pages_max_;
  const uint64_t journal_bytes_max_;
  std::vector<Page> pages_;
  std::vector<uint32_t> clock_;
  size_t hand_ = 0;
  std::vector<uint32_t> unit_tags_;
  std::deque<DirtyPage> dirty_;
  std::deque<uint64_t> journal_;  // bytes of each commit kept
  uint64_t journal_bytes_ = 0;
  uint32_t first_commit_ = 1;  // kept in the journal
  uint32_t next_commit_ = 1;
  uint64_t changes_ = 0;  // of the commit under way
};

}  // namespace ebb::twin
