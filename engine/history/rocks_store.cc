#include <algorithm>
#include <array>
#include <cstdarg>
#include <filesystem>

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include "base/status.h"
#include "engine/history/ordered_store.h"

namespace ebb::engine {
namespace {

constexpr std::array<const char*, kTableCount> kTableNames = {"events", "changes", "change_index",
                                                              "series", "documents"};

rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }

absl::Status FromRocks(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = "history: " + status.ToString();
  if (status.IsCorruption()) return absl::DataLossError(message);
  if (status.IsNoSpace()) return absl::ResourceExhaustedError(message);
  if (status.IsIOError() && status.ToString().find("lock") != std::string::npos) {
    return absl::FailedPreconditionError(message + " (is another ebbd running on this directory?)");
  }
  return absl::InternalError(message);
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families(const rocksdb::Options& options) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, options}};
  for (const char* name : kTableNames) families.emplace_back(name, options);
  return families;
}

// RocksDB's own makes a file.
class NoLogger final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

class RocksCursor final : public KeyCursor {
 public:
  RocksCursor(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, std::string from,
              std::string to)
      : from_(std::move(from)), to_(std::move(to)), low_(from_), high_(to_) {
    rocksdb::ReadOptions options;
    options.iterate_lower_bound = &low_;
    options.iterate_upper_bound = &high_;
    iterator_.reset(db.NewIterator(options, family));
  }
  bool SeekDown(std::string_view key) override {
    iterator_->SeekForPrev(ToSlice(key));
    return iterator_->Valid();
  }
  bool Down() override {
    iterator_->Prev();
    return iterator_->Valid();
  }
  std::string_view key() const override {
    return {iterator_->key().data(), iterator_->key().size()};
  }
  absl::Status status() const override { return FromRocks(iterator_->status()); }

 private:
  // The iterator looks at the bounds as long as it lives.
  const std::string from_;
  const std::string to_;
  const rocksdb::Slice low_;
  const rocksdb::Slice high_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

class RocksStore final : public OrderedStore {
 public:
  RocksStore(std::unique_ptr<rocksdb::DB> db, std::vector<rocksdb::ColumnFamilyHandle*> handles)
      : db_(std::move(db)), handles_(std::move(handles)) {}
  ~RocksStore() override {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    }
  }
  RocksStore(const RocksStore&) = delete;
  RocksStore& operator=(const RocksStore&) = delete;

  absl::Status Write(const std::vector<StoreEdit>& batch, bool sync) override {
    rocksdb::WriteBatch writes;
    for (const StoreEdit& edit : batch) {
      const rocksdb::Status status = edit.value
                                         ? writes.Put(Family(edit.table), edit.key, *edit.value)
                                         : writes.Delete(Family(edit.table), edit.key);
      EBB_RETURN_IF_ERROR(FromRocks(status));
    }
    rocksdb::WriteOptions options;
    options.sync = sync;
    return FromRocks(db_->Write(options, &writes));
  }

  absl::StatusOr<std::optional<std::string>> Get(Table table, std::string_view key) override {
    std::string value;
    const rocksdb::Status status =
        db_->Get(rocksdb::ReadOptions(), Family(table), ToSlice(key), &value);
    if (status.IsNotFound()) return std::nullopt;
    EBB_RETURN_IF_ERROR(FromRocks(status));
    return value;
  }

  absl::Status Scan(Table table, std::string_view from, std::string_view to, bool descending,
                    const Visit& visit) override {
    const rocksdb::Slice low = ToSlice(from);
    const rocksdb::Slice high = ToSlice(to);
    rocksdb::ReadOptions options;
    options.iterate_lower_bound = &low;
    options.iterate_upper_bound = &high;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options, Family(table)));
    for (descending ? it->SeekToLast() : it->SeekToFirst(); it->Valid();
         descending ? it->Prev() : it->Next()) {
      if (!visit({it->key().data(), it->key().size()}, {it->value().data(), it->value().size()})) {
        return absl::OkStatus();
      }
    }
    return FromRocks(it->status());
  }

  std::unique_ptr<KeyCursor> MakeCursor(Table table, std::string from, std::string to) override {
    return std::make_unique<RocksCursor>(*db_, Family(table), std::move(from), std::move(to));
  }

  absl::Status DeleteRange(Table table, std::string_view from, std::string_view to) override {
    return FromRocks(
        db_->DeleteRange(rocksdb::WriteOptions(), Family(table), ToSlice(from), ToSlice(to)));
  }

 private:
  rocksdb::ColumnFamilyHandle* Family(Table table) {
    return handles_[1 + static_cast<size_t>(table)];
  }

  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;  // the default family, then ours
};

}  // namespace

absl::StatusOr<std::unique_ptr<OrderedStore>> OpenRocksStoreForReading(
    const std::string& directory) {
  if (!std::filesystem::exists(directory + "/CURRENT")) {
    return absl::NotFoundError(directory + ": there is no history");
  }
  rocksdb::Options options;
  options.max_open_files = -1;  // all from the start: who writes may replace them
  options.info_log = std::make_shared<NoLogger>();
  rocksdb::DB* raw = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  EBB_RETURN_IF_ERROR(Annotate(FromRocks(rocksdb::DB::OpenForReadOnly(
                                   options, directory, Families(options), &handles, &raw)),
                               directory));
  return std::make_unique<RocksStore>(std::unique_ptr<rocksdb::DB>(raw), std::move(handles));
}

absl::StatusOr<std::unique_ptr<OrderedStore>> OpenRocksStore(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return ErrnoStatus(error.value(), "history directory " + directory);
  }
  rocksdb::Options options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.write_buffer_size = 8 << 20;
  // What the next start has to read again after a kill, whichever table it belongs to.
  options.max_total_wal_size = 16 << 20;
  options.max_open_files = 256;
  options.keep_log_file_num = 2;
  rocksdb::DB* raw = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  EBB_RETURN_IF_ERROR(
      Annotate(FromRocks(rocksdb::DB::Open(options, directory, Families(options), &handles, &raw)),
               directory));
  return std::make_unique<RocksStore>(std::unique_ptr<rocksdb::DB>(raw), std::move(handles));
}

}  // namespace ebb::engine
