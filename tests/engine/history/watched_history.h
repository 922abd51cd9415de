// A history over a store that the test watches, on RocksDB and in memory.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "engine/history/history.h"
#include "tests/engine/history/watched_store.h"
#include "tests/support/program.h"

namespace ebb::engine {

enum class StoreKind { kMemory, kRocks };

inline auto StoreKinds() { return ::testing::Values(StoreKind::kMemory, StoreKind::kRocks); }
inline std::string StoreKindName(const ::testing::TestParamInfo<StoreKind>& store) {
  return store.param == StoreKind::kMemory ? "Memory" : "Rocks";
}

class WatchedHistoryTest : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    store_ = GetParam() == StoreKind::kMemory ? MakeMemoryStore() : *OpenRocksStore(folder_.path());
    Open({});
  }
  void Open(const HistoryConfig& config) {
    auto watched = std::make_unique<WatchedStore>(*store_);
    watched_ = watched.get();
    history_ = *History::Open(std::move(watched), config);
  }
  // The disk is full after each number of writes in turn; then there is room.
  void OpenInSpiteOfAFullDisk() {
    for (uint64_t writes = 0;; ++writes) {
      auto watched = std::make_unique<WatchedStore>(*store_);
      watched->set_writes_left(writes);
      if (History::Open(std::move(watched), {}).ok()) break;
      ASSERT_LT(writes, 100U);
    }
    Open({});
  }

 private:
  const ebb::testing::ScratchFolder folder_;

 protected:
  std::unique_ptr<OrderedStore> store_;
  WatchedStore* watched_ = nullptr;
  std::unique_ptr<History> history_;
};

}  // namespace ebb::engine
