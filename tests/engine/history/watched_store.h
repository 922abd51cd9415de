// WatchedStore hands on to a store that the test holds, counts what is read and refuses writes on
// cue. Syncs are counted, not done: the tests that need them use the store itself.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "engine/history/ordered_store.h"

namespace ebb::engine {

class WatchedStore final : public OrderedStore {
 public:
  explicit WatchedStore(OrderedStore& store) : store_(store) {}

  absl::Status Write(const std::vector<StoreEdit>& batch, bool sync) override {
    if (writes_left_ == 0) return absl::ResourceExhaustedError("no space");
    --writes_left_;
    syncs_ += sync ? 1 : 0;
    return store_.Write(batch, /*sync=*/false);
  }
  absl::StatusOr<std::optional<std::string>> Get(Table table, std::string_view key) override {
    events_read_ += table == Table::kEvents ? 1 : 0;
    return store_.Get(table, key);
  }
  absl::Status Scan(Table table, std::string_view from, std::string_view to, bool descending,
                    const Visit& visit) override {
    return store_.Scan(table, from, to, descending,
                       [&](std::string_view key, std::string_view value) {
                         ++rows_;
                         return visit(key, value);
                       });
  }
  std::unique_ptr<KeyCursor> MakeCursor(Table table, std::string from, std::string to) override {
    return std::make_unique<Cursor>(store_.MakeCursor(table, std::move(from), std::move(to)),
                                    cursor_moves_);
  }
  absl::Status DeleteRange(Table table, std::string_view from, std::string_view to) override {
    return store_.DeleteRange(table, from, to);
  }

  // Later writes are refused as on a full disk.
  void set_writes_left(uint64_t writes) { writes_left_ = writes; }
  uint64_t syncs() const { return syncs_; }
  uint64_t rows() const { return rows_; }  // visited by scans so far
  uint64_t cursor_moves() const { return cursor_moves_; }
  uint64_t events_read() const { return events_read_; }  // one by one

  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

 private:
  class Cursor final : public KeyCursor {
   public:
    Cursor(std::unique_ptr<KeyCursor> cursor, uint64_t& moves)
        : cursor_(std::move(cursor)), moves_(moves) {}
    bool SeekDown(std::string_view key) override {
      ++moves_;
      return cursor_->SeekDown(key);
    }
    bool Down() override {
      ++moves_;
      return cursor_->Down();
    }
    std::string_view key() const override { return cursor_->key(); }
    absl::Status status() const override { return cursor_->status(); }

   private:
    std::unique_ptr<KeyCursor> cursor_;
    uint64_t& moves_;
  };

  OrderedStore& store_;
  uint64_t writes_left_ = kNoLimit;
  uint64_t syncs_ = 0;
  uint64_t rows_ = 0;
  uint64_t cursor_moves_ = 0;
  uint64_t events_read_ = 0;
};

}  // namespace ebb::engine
