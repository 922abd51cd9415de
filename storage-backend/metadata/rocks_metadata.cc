// RocksMetadata: the MetadataStore on RocksDB, one column family for each table.
//
// Memory is bounded: one block cache holds data, index and filter blocks of all tables, and the
// memtables of all tables share one limit. A durable commit syncs the write-ahead log; RocksDB then
// replays it after a crash up to the last whole record, so what a durable commit covered is back.
#include <array>
#include <cstdarg>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {
namespace {

constexpr size_t kBlockCacheBytes = 64 << 20;
constexpr size_t kMemtableBytes = 8 << 20;       // of one table
constexpr size_t kMemtablesBytesMax = 48 << 20;  // of all tables
constexpr uint64_t kLogBytesMax = 64 << 20;      // older tables are flushed to let old logs go
constexpr uint64_t kTableFileBytes = 32 << 20;
constexpr int kOpenFilesMax = 512;
constexpr double kBloomBitsPerKey = 10;  // 1 % of look-ups of an absent key read a block

constexpr std::array<Table, kTableCount> kTables = {
    Table::kMap,      Table::kJournal, Table::kUnits, Table::kFingerprints,
    Table::kSegments, Table::kExtents, Table::kNode};

absl::Status FromRocks(const rocksdb::Status& status, const std::string& context) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat(context, ": ", status.ToString());
  if (status.IsCorruption()) return absl::DataLossError(message);
  if (status.IsNoSpace()) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

class RocksMetadata final : public MetadataStore {
 public:
  RocksMetadata(std::string directory, std::unique_ptr<rocksdb::DB> db,
                std::array<rocksdb::ColumnFamilyHandle*, kTableCount> tables,
                std::vector<rocksdb::ColumnFamilyHandle*> handles)
      : directory_(std::move(directory)),
        db_(std::move(db)),
        tables_(tables),
        handles_(std::move(handles)) {}

  ~RocksMetadata() override {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) db_->DestroyColumnFamilyHandle(handle);
  }

  absl::StatusOr<std::optional<std::string>> Get(Table table, std::string_view key) override {
    std::string value;
    const rocksdb::Status status =
        db_->Get(rocksdb::ReadOptions(), Handle(table), rocksdb::Slice(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>();
    if (!status.ok()) return FromRocks(status, Context("read", table));
    return std::optional<std::string>(std::move(value));
  }

  absl::StatusOr<std::vector<std::optional<std::string>>> MultiGet(
      Table table, const std::vector<std::string>& keys) override {
    std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
    std::vector<rocksdb::PinnableSlice> found(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    db_->MultiGet(rocksdb::ReadOptions(), Handle(table), slices.size(), slices.data(), found.data(),
                  statuses.data());
    std::vector<std::optional<std::string>> values(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].IsNotFound()) continue;
      if (!statuses[i].ok()) return FromRocks(statuses[i], Context("read", table));
      values[i] = found[i].ToString();
    }
    return values;
  }

  absl::Status Scan(
      Table table, std::string_view first, std::string_view last,
      const std::function<bool(std::string_view key, std::string_view value)>& visit) override {
    const rocksdb::Slice upper(last);
    rocksdb::ReadOptions options;
    if (!last.empty()) options.iterate_upper_bound = &upper;
    const std::unique_ptr<rocksdb::Iterator> row(db_->NewIterator(options, Handle(table)));
    for (row->Seek(rocksdb::Slice(first)); row->Valid(); row->Next()) {
      if (!visit(row->key().ToStringView(), row->value().ToStringView())) break;
    }
    return FromRocks(row->status(), Context("scan", table));
  }

  absl::Status Commit(const MetadataBatch& batch, bool durable) override {
    rocksdb::WriteBatch writes;
    for (const MetadataBatch::Change& change : batch.changes()) {
      const rocksdb::Status status =
          change.value.has_value() ? writes.Put(Handle(change.table), change.key, *change.value)
                                   : writes.Delete(Handle(change.table), change.key);
      if (!status.ok()) return FromRocks(status, Context("commit", change.table));
    }
    rocksdb::WriteOptions options;
    options.sync = durable;
    return FromRocks(db_->Write(options, &writes),
                     absl::StrCat("metadata ", directory_, ": commit"));
  }

 private:
  rocksdb::ColumnFamilyHandle* Handle(Table table) const {
    return tables_[static_cast<size_t>(table)];
  }
  std::string Context(std::string_view verb, Table table) const {
    return absl::StrCat("metadata ", directory_, ": ", std::string(verb), " table ",
                        TableName(table));
  }

  const std::string directory_;
  const std::unique_ptr<rocksdb::DB> db_;
  const std::array<rocksdb::ColumnFamilyHandle*, kTableCount> tables_;
  const std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

rocksdb::DBOptions DatabaseOptions() {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.db_write_buffer_size = kMemtablesBytesMax;
  options.max_total_wal_size = kLogBytesMax;
  options.max_open_files = kOpenFilesMax;
  options.max_background_jobs = 2;
  options.bytes_per_sync = 1 << 20;  // no long stall when a table file is finished
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.track_and_verify_wals_in_manifest = true;  // a lost log file is an error, not silence
  options.keep_log_file_num = 2;
  options.max_log_file_size = 1 << 20;
  return options;
}

rocksdb::ColumnFamilyOptions TableOptions(std::string_view name,
                                          const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions blocks;
  blocks.block_cache = cache;
  blocks.cache_index_and_filter_blocks = true;
  blocks.pin_l0_filter_and_index_blocks_in_cache = true;
  blocks.format_version = 5;
  // Point look-ups find their key in a block by hash instead of by bisection.
  blocks.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  // Point look-ups rule these tables, and most fingerprints looked up are absent.
  if (name == TableName(Table::kMap) || name == TableName(Table::kUnits) ||
      name == TableName(Table::kFingerprints)) {
    blocks.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBitsPerKey));
  }
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = kMemtableBytes;
  options.target_file_size_base = kTableFileBytes;
  options.compression = rocksdb::kNoCompression;  // checksums and hashes do not shrink
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
  return options;
}

// Whether `name` is a file that RocksDB may leave behind when it dies while it creates a database.
bool IsCreationLeftover(const std::string& name) {
  return name == "LOCK" || name == "IDENTITY" || absl::StartsWith(name, "LOG") ||
         absl::StartsWith(name, "MANIFEST-") || absl::StartsWith(name, "OPTIONS-") ||
         absl::EndsWith(name, ".dbtmp") || absl::EndsWith(name, ".log");
}

// The names of the column families to open; only the default one when there is no database yet.
absl::StatusOr<std::vector<std::string>> ExistingFamilies(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("metadata ", directory, ": create"));
  bool has_database = false;
  std::string foreign;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == "CURRENT") has_database = true;
    if (!IsCreationLeftover(name)) foreign = name;
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("metadata ", directory, ": list"));
  if (!has_database) {
    if (foreign.empty()) return std::vector<std::string>();
    return absl::FailedPreconditionError(
        absl::StrCat("metadata ", directory, ": holds files of something else (", foreign,
                     ") and no metadata; name an empty directory or the right one"));
  }
  std::vector<std::string> families;
  const rocksdb::Status status =
      rocksdb::DB::ListColumnFamilies(rocksdb::DBOptions(), directory, &families);
  if (!status.ok()) {
    return absl::DataLossError(absl::StrCat(
        "metadata ", directory, ": is damaged and cannot be opened: ", status.ToString()));
  }
  return families;
}

// A logger that says nothing: RocksDB's own makes a file.
class NoLogger final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

absl::Status OpenFault(const rocksdb::Status& status, const std::string& directory) {
  if (absl::StrContains(status.ToString(), "lock")) {
    return absl::FailedPreconditionError(absl::StrCat(
        "metadata ", directory, ": is in use by another process: ", status.ToString()));
  }
  if (status.IsCorruption() || status.IsNotFound()) {
    return absl::DataLossError(absl::StrCat(
        "metadata ", directory, ": is damaged and cannot be opened: ", status.ToString()));
  }
  return FromRocks(status, absl::StrCat("metadata ", directory, ": open"));
}

absl::StatusOr<std::unique_ptr<MetadataStore>> OpenDatabase(
    const std::string& directory, const std::vector<std::string>& existing, bool read_only) {
  const std::shared_ptr<rocksdb::Cache> cache = rocksdb::NewLRUCache(kBlockCacheBytes);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const Table table : kTables) {
    families.emplace_back(TableName(table), TableOptions(TableName(table), cache));
  }
  families.emplace_back(rocksdb::kDefaultColumnFamilyName, TableOptions("default", cache));
  for (const std::string& name : existing) {
    bool known = false;
    for (const rocksdb::ColumnFamilyDescriptor& family : families) known |= family.name == name;
    if (!known) {
      return absl::FailedPreconditionError(absl::StrCat(
          "metadata ", directory, ": is not Ebb's or of a newer version: it has a table ", name,
          " that this version does not know"));
    }
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  rocksdb::DBOptions options = DatabaseOptions();
  if (read_only) options.info_log = std::make_shared<NoLogger>();
  const rocksdb::Status status =
      read_only ? rocksdb::DB::OpenForReadOnly(options, directory, families, &handles, &db)
                : rocksdb::DB::Open(options, directory, families, &handles, &db);
  if (!status.ok()) return OpenFault(status, directory);
  std::array<rocksdb::ColumnFamilyHandle*, kTableCount> tables{};
  for (size_t i = 0; i < kTableCount; ++i) tables[static_cast<size_t>(kTables[i])] = handles[i];
  return std::unique_ptr<MetadataStore>(std::make_unique<RocksMetadata>(
      directory, std::unique_ptr<rocksdb::DB>(db), tables, std::move(handles)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetadataStore>> OpenRocksMetadata(const std::string& directory) {
  EBB_ASSIGN_OR_RETURN(const std::vector<std::string> existing, ExistingFamilies(directory));
  return OpenDatabase(directory, existing, /*read_only=*/false);
}

absl::StatusOr<std::unique_ptr<MetadataStore>> OpenRocksMetadataReadOnly(
    const std::string& directory) {
  const auto none = [&] {
    return absl::NotFoundError(absl::StrCat("metadata ", directory, ": there is none"));
  };
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) return none();
  EBB_ASSIGN_OR_RETURN(const std::vector<std::string> existing, ExistingFamilies(directory));
  if (existing.empty()) return none();
  return OpenDatabase(directory, existing, /*read_only=*/true);
}

}  // namespace ebb::storage
