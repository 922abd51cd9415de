// Keys of the table: a byte for the level (none for windows), the node, 0, a time. The time is the
// end of a window or the start of a roll-up, whose length divides it. Names of nodes begin above
// the levels' bytes.
#include "engine/history/series_store.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/status.h"
#include "engine/history/keys.h"
#include "engine/history/roll_up.h"

namespace ebb::engine {
namespace {

constexpr size_t kLevels = 4;  // level 0: windows
constexpr std::array<int64_t, kLevels> kLengthMs = {0, 10'000, 60'000, 600'000};
constexpr size_t kMinutes = 2;
constexpr char kLowestNodeByte = ' ';
constexpr std::string_view kRollUpsKey = "history/series";  // a document: what it says is there
constexpr std::string_view kRollUpsValue = "1";
constexpr uint32_t kPointsPerPrune = 1440;  // of all nodes; a day of the longest windows
constexpr size_t kEditsPerBatch = 500;

std::string NodePrefix(size_t level, std::string_view node) {
  std::string prefix;
  if (level > 0) prefix.push_back(static_cast<char>(level));
  prefix.append(node).push_back('\0');
  return prefix;
}

std::string Key(size_t level, std::string_view node, int64_t ms) {
  return NodePrefix(level, node) + TimeKey(ms);
}

int64_t TimeOf(std::string_view key) {
  return static_cast<int64_t>(FromBigEndian(key.substr(key.size() - 8)));
}

int64_t StartOf(size_t level, int64_t ms) { return level == 0 ? ms : ms - ms % kLengthMs[level]; }

int64_t DivideUp(int64_t value, int64_t by) { return (value + by - 1) / by; }

// Buckets of the level that touch [from_ms, to_ms); of windows: milliseconds.
int64_t BucketCount(size_t level, int64_t from_ms, int64_t to_ms) {
  if (level == 0) return to_ms - from_ms;
  return DivideUp(to_ms, kLengthMs[level]) - from_ms / kLengthMs[level];
}

// A row of any level; a window is a roll-up of one.
absl::StatusOr<RollUp> ReadRow(size_t level, std::string_view key, std::string_view bytes) {
  RollUp row;
  SeriesPoint point;
  if (level == 0 && UnpackPoint(bytes, point)) {
    point.wall_ms = TimeOf(key);
    row.Add(point);
    return row;
  }
  if (level > 0 && RollUp::Unpack(bytes, row)) return row;
  return absl::DataLossError(fmt::format("history: the series is damaged at {} ms", TimeOf(key)));
}

// The time of the first row, or of the last one, with from <= time < to.
absl::StatusOr<std::optional<int64_t>> EndRow(OrderedStore& store, size_t level,
                                              const std::string& node, int64_t from, int64_t to,
                                              bool last) {
  std::optional<int64_t> found;
  EBB_RETURN_IF_ERROR(store.Scan(Table::kSeries, Key(level, node, from), Key(level, node, to), last,
                                 [&](std::string_view key, std::string_view /*value*/) {
                                   found = TimeOf(key);
                                   return false;
                                 }));
  return found;
}

// Makes the roll-ups of windows that come in the order of their keys.
class RollUpMaker {
 public:
  explicit RollUpMaker(OrderedStore& store) : store_(store) {}

  absl::Status Add(const std::string& node, const SeriesPoint& point) {
    for (size_t level = 1; level < kLevels; ++level) {
      Open& open = open_[level];
      const int64_t start = StartOf(level, point.wall_ms);
      if (open.node != node || open.start != start) {
        Close(level);
        open = {node, start, {}};
      }
      open.roll_up.Add(point);
    }
    return batch_.size() < kEditsPerBatch ? absl::OkStatus() : Flush();
  }

  // With the last of them, says in the history that they are there.
  absl::Status Finish() {
    for (size_t level = 1; level < kLevels; ++level) Close(level);
    batch_.push_back({Table::kDocuments, std::string(kRollUpsKey), std::string(kRollUpsValue)});
    return store_.Write(batch_, /*sync=*/true);
  }

 private:
  struct Open {
    std::string node;
    int64_t start = 0;
    RollUp roll_up;
  };
  void Close(size_t level) {
    const Open& open = open_[level];
    if (open.roll_up.windows() == 0) return;
    batch_.push_back({Table::kSeries, Key(level, open.node, open.start), open.roll_up.Pack()});
  }
  absl::Status Flush() {
    EBB_RETURN_IF_ERROR(store_.Write(batch_, /*sync=*/false));
    batch_.clear();
    return absl::OkStatus();
  }

  OrderedStore& store_;
  std::array<Open, kLevels> open_;
  std::vector<StoreEdit> batch_;
};

// Puts rows into buckets of equal time, and keeps them single as long as they are few.
class Gatherer {
 public:
  // width_ms 0: every row is a bucket of its own.
  Gatherer(int64_t from_ms, int64_t width_ms, size_t single_max)
      : from_ms_(from_ms), width_ms_(width_ms), single_max_(single_max) {}

  void Add(int64_t start_ms, const RollUp& row) {
    if (rows_++ < single_max_ || width_ms_ == 0) single_.push_back(row.ToBucket());
    if (width_ms_ == 0) return;
    const int64_t bucket = (start_ms - from_ms_) / width_ms_;
    if (bucket != bucket_) Close();
    bucket_ = bucket;
    open_.Add(row);
  }

  Series Finish(int64_t row_ms) {
    if (width_ms_ == 0 || rows_ <= single_max_) return {row_ms, std::move(single_)};
    Close();
    return {width_ms_, std::move(gathered_)};
  }

 private:
  void Close() {
    if (open_.windows() > 0) gathered_.push_back(open_.ToBucket());
    open_ = {};
  }

  const int64_t from_ms_;
  const int64_t width_ms_;
  const size_t single_max_;
  size_t rows_ = 0;
  std::vector<SeriesBucket> single_;
  std::vector<SeriesBucket> gathered_;
  RollUp open_;
  int64_t bucket_ = 0;
};

}  // namespace

SeriesStore::SeriesStore(OrderedStore& store, const SeriesRetention& keep)
    : store_(store),
      keep_ms_{keep.windows_ms, keep.ten_seconds_ms, keep.minutes_ms, keep.ten_minutes_ms} {}

absl::Status SeriesStore::Open() {
  EBB_ASSIGN_OR_RETURN(const auto said, store_.Get(Table::kDocuments, kRollUpsKey));
  has_roll_ups_ = said.has_value();
  return absl::OkStatus();
}

absl::Status SeriesStore::MakeRollUps() {
  if (has_roll_ups_) return absl::OkStatus();
  // Each is made from all its windows at once, so being killed in between leaves nothing to undo.
  RollUpMaker maker(store_);
  absl::Status fault;
  EBB_RETURN_IF_ERROR(
      store_.Scan(Table::kSeries, std::string(1, kLowestNodeByte), "\xff", /*descending=*/false,
                  [&](std::string_view key, std::string_view value) {
                    SeriesPoint point;
                    if (key.size() < 9 || !UnpackPoint(value, point)) return true;
                    point.wall_ms = TimeOf(key);
                    fault = maker.Add(std::string(key.substr(0, key.size() - 9)), point);
                    return fault.ok();
                  }));
  EBB_RETURN_IF_ERROR(fault);
  EBB_RETURN_IF_ERROR(maker.Finish());
  has_roll_ups_ = true;
  return absl::OkStatus();
}

absl::Status SeriesStore::Append(const std::string& node, const SeriesPoint& point) {
  const std::lock_guard lock(append_mutex_);
  const std::string key = Key(0, node, point.wall_ms);
  EBB_ASSIGN_OR_RETURN(const auto present, store_.Get(Table::kSeries, key));
  if (present) return absl::OkStatus();
  std::vector<StoreEdit> batch = {{Table::kSeries, key, PackPoint(point)}};
  bool sync = false;
  for (size_t level = 1; level < kLevels; ++level) {
    std::string roll_up_key = Key(level, node, StartOf(level, std::max<int64_t>(0, point.wall_ms)));
    EBB_ASSIGN_OR_RETURN(const auto bytes, store_.Get(Table::kSeries, roll_up_key));
    RollUp roll_up;
    if (bytes) {
      EBB_ASSIGN_OR_RETURN(roll_up, ReadRow(level, roll_up_key, *bytes));
    }
    roll_up.Add(point);
    if (level == kMinutes) sync = !bytes;
    batch.push_back({Table::kSeries, std::move(roll_up_key), roll_up.Pack()});
  }
  EBB_RETURN_IF_ERROR(store_.Write(batch, sync));
  if (++points_since_prune_ < kPointsPerPrune) return absl::OkStatus();
  points_since_prune_ = 0;
  return Prune(point.wall_ms);
}

absl::Status SeriesStore::Prune(int64_t now_ms) {
  for (size_t level = 0; level < kLevels; ++level) {
    EBB_RETURN_IF_ERROR(PruneLevel(level, now_ms));
  }
  return absl::OkStatus();
}

absl::Status SeriesStore::PruneLevel(size_t level, int64_t now_ms) {
  std::string from(1, level == 0 ? kLowestNodeByte : static_cast<char>(level));
  const std::string end(1, level == 0 ? '\xff' : static_cast<char>(level + 1));
  while (true) {
    std::string oldest;
    EBB_RETURN_IF_ERROR(store_.Scan(Table::kSeries, from, end, /*descending=*/false,
                                    [&](std::string_view key, std::string_view /*value*/) {
                                      oldest = key;
                                      return false;
                                    }));
    if (oldest.size() < 9) return absl::OkStatus();
    const std::string prefix = oldest.substr(0, oldest.size() - 8);
    // Not more than a day at once: a clock that was wrong for a moment must not empty the history.
    const int64_t cutoff = std::min(now_ms - keep_ms_[level], TimeOf(oldest) + kMsPerDay);
    if (TimeOf(oldest) < cutoff) {
      EBB_RETURN_IF_ERROR(
          store_.DeleteRange(Table::kSeries, prefix + TimeKey(0), prefix + TimeKey(cutoff)));
    }
    from = prefix;
    from.back() = '\1';  // behind every key of this node
  }
}

// The span, cut to what there is of the node.
absl::StatusOr<SeriesStore::Span> SeriesStore::Clip(const std::string& node, Span span) {
  std::optional<int64_t> oldest;
  std::optional<int64_t> newest;
  int64_t coarser_ms = 0;
  for (size_t level = kLevels; level-- > 0;) {
    EBB_ASSIGN_OR_RETURN(const auto first, EndRow(store_, level, node, 0, INT64_MAX, false));
    EBB_ASSIGN_OR_RETURN(const auto last, EndRow(store_, level, node, 0, INT64_MAX, true));
    if (!first || !last) continue;
    // The finest level knows best where the oldest row of a coarser one begins.
    if (!oldest || *first < *oldest + coarser_ms) oldest = first;
    newest = *last + std::max<int64_t>(1, kLengthMs[level]);
    coarser_ms = kLengthMs[level];
  }
  if (!oldest) return Span{};
  return Span{std::max(span.from_ms, *oldest), std::min(span.to_ms, *newest)};
}

// The coarsest level with a bucket for each point; a coarser one where that does not reach back far
// enough.
absl::StatusOr<size_t> SeriesStore::ChooseLevel(const std::string& node, const Span& span,
                                                int64_t points) {
  if (!has_roll_ups_) return 0;
  size_t level = points == 0 ? 0 : kLevels - 1;
  while (level > 0 && BucketCount(level, span.from_ms, span.to_ms) < points) --level;
  EBB_ASSIGN_OR_RETURN(
      auto first, EndRow(store_, level, node, StartOf(level, span.from_ms), span.to_ms, false));
  for (size_t coarser = level + 1; coarser < kLevels; ++coarser) {
    EBB_ASSIGN_OR_RETURN(
        const auto other,
        EndRow(store_, coarser, node, StartOf(coarser, span.from_ms), span.to_ms, false));
    if (!other || (first && *other >= StartOf(coarser, *first))) continue;
    level = coarser;
    first = other;
  }
  return level;
}

absl::StatusOr<Series> SeriesStore::Read(const std::string& node, int64_t from_ms, int64_t to_ms,
                                         size_t max_points) {
  EBB_ASSIGN_OR_RETURN(Span span, Clip(node, {std::max<int64_t>(0, from_ms), to_ms}));
  if (span.from_ms >= span.to_ms) return Series{};
  // No answer has more points than there are milliseconds.
  const auto points = static_cast<int64_t>(
      std::min<uint64_t>(max_points, static_cast<uint64_t>(span.to_ms - span.from_ms)));
  EBB_ASSIGN_OR_RETURN(const size_t level, ChooseLevel(node, span, points));
  span.from_ms = StartOf(level, span.from_ms);
  const int64_t row_ms = kLengthMs[level];
  const int64_t width_ms = points == 0
                               ? 0
                               : DivideUp(BucketCount(level, span.from_ms, span.to_ms), points) *
                                     std::max<int64_t>(1, row_ms);
  Gatherer gatherer(span.from_ms, width_ms, max_points);
  absl::Status fault;
  EBB_RETURN_IF_ERROR(
      store_.Scan(Table::kSeries, Key(level, node, span.from_ms), Key(level, node, span.to_ms),
                  /*descending=*/false, [&](std::string_view key, std::string_view value) {
                    absl::StatusOr<RollUp> row = ReadRow(level, key, value);
                    fault = row.status();
                    if (!fault.ok()) return false;
                    gatherer.Add(TimeOf(key), *row);
                    return true;
                  }));
  EBB_RETURN_IF_ERROR(fault);
  return gatherer.Finish(row_ms);
}

}  // namespace ebb::engine
