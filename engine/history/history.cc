#include "engine/history/history.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "engine/history/change_json.h"
#include "engine/history/keys.h"

namespace ebb::engine {
namespace {

using Json = nlohmann::json;

// An event's value: CRC-32C of the rest (4 bytes, little endian), chain hash (32 bytes), JSON text.
constexpr size_t kCrcBytes = 4;
constexpr size_t kHashBytes = 32;
constexpr std::string_view kHeadKey = "history/head";
constexpr std::string_view kChangeKind = "change.";

std::string Sha256(std::string_view a, std::string_view b) {
  std::string hash(kHashBytes, '\0');
  std::string text(a);
  text.append(b);
  unsigned int bytes = 0;
  const int ok = EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(hash.data()),
                            &bytes, EVP_sha256(), nullptr);
  EBB_CHECK(ok == 1 && bytes == kHashBytes);
  return hash;
}

std::string CrcOf(std::string_view text) {
  const uint32_t crc = Crc32c(std::as_bytes(std::span(text.data(), text.size())));
  std::string bytes(kCrcBytes, '\0');
  for (size_t i = 0; i < kCrcBytes; ++i) bytes[i] = static_cast<char>(crc >> (8 * i));
  return bytes;
}

std::string Hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

struct EventParts {
  std::string_view hash;
  std::string_view json;
};

absl::StatusOr<EventParts> SplitEvent(uint64_t sequence, std::string_view value) {
  if (value.size() < kCrcBytes + kHashBytes ||
      value.substr(0, kCrcBytes) != CrcOf(value.substr(kCrcBytes))) {
    return absl::DataLossError(fmt::format("history: event {} is damaged (checksum)", sequence));
  }
  return EventParts{value.substr(kCrcBytes, kHashBytes), value.substr(kCrcBytes + kHashBytes)};
}

// Finds the id of the change whose state an event holds, and reads no further: it stands early in
// the text, and a history has millions of events.
class ChangeIdFinder final : public nlohmann::json_sax<Json> {
 public:
  static std::optional<uint64_t> Find(std::string_view event) {
    ChangeIdFinder finder;
    Json::sax_parse(event, &finder);
    return finder.id_;
  }

  bool start_object(std::size_t /*members*/) override {
    ++depth_;
    in_data_ = in_data_ || (depth_ == 2 && key_ == "data");
    return true;
  }
  bool end_object() override {
    if (--depth_ < 2) in_data_ = false;
    return true;
  }
  bool key(string_t& name) override {
    key_ = name;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_data_ || depth_ != 2 || key_ != "id") return true;
    id_ = value;
    return false;
  }
  bool string(string_t& value) override {
    // The kind is the first member where the object has one.
    return depth_ != 1 || key_ != "kind" || value.starts_with(kChangeKind);
  }
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_array(std::size_t /*elements*/) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  int depth_ = 0;
  bool in_data_ = false;
  std::string key_;
  std::optional<uint64_t> id_;
};

bool Matches(const Change& change, const ChangeQuery& query) {
  if (query.from_ms && change.proposed_ms < *query.from_ms) return false;
  if (query.to_ms && change.proposed_ms >= *query.to_ms) return false;
  if (query.verdict && change.verdict != *query.verdict) return false;
  if (!change.actor.starts_with(query.actor)) return false;
  if (!query.goal.empty() && change.goal != query.goal) return false;
  if (!query.context.empty() && change.context != query.context) return false;
  return query.knob.empty() || std::any_of(change.knobs.begin(), change.knobs.end(),
                                           [&](const auto& k) { return k.knob == query.knob; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<History>> History::Open(std::unique_ptr<OrderedStore> store,
                                                       const HistoryConfig& config) {
  std::unique_ptr<History> history(new History(std::move(store), config));
  EBB_RETURN_IF_ERROR(history->ReadHead());
  EBB_RETURN_IF_ERROR(history->series_.Open());
  EBB_RETURN_IF_ERROR(history->index_.Open());
  if (config.read_only) return history;
  EBB_RETURN_IF_ERROR(history->series_.MakeRollUps());
  EBB_RETURN_IF_ERROR(
      history->index_.Complete([&](uint64_t id) { return history->GetChange(id); }));
  return history;
}

absl::Status History::ReadHead() {
  head_.hash.assign(kHashBytes, '\0');
  EBB_ASSIGN_OR_RETURN(const std::optional<std::string> bytes,
                       store_->Get(Table::kDocuments, kHeadKey));
  uint64_t last_event = 0;
  std::string last_hash = head_.hash;
  absl::Status damage;
  EBB_RETURN_IF_ERROR(store_->Scan(Table::kEvents, BigEndian(0), BigEndian(UINT64_MAX), true,
                                   [&](std::string_view key, std::string_view value) {
                                     last_event = FromBigEndian(key);
                                     const auto parts = SplitEvent(last_event, value);
                                     if (parts.ok()) last_hash = parts->hash;
                                     damage = parts.status();
                                     return false;
                                   }));
  EBB_RETURN_IF_ERROR(damage);
  if (bytes && bytes->size() == 16 + kHashBytes) {
    head_.sequence = FromBigEndian(*bytes);
    head_.last_change_id = FromBigEndian(std::string_view(*bytes).substr(8));
    head_.hash = bytes->substr(16);
  } else if (bytes) {
    return absl::DataLossError("history: the head of the chain is damaged");
  }
  if (head_.sequence != last_event || head_.hash != last_hash) {
    return absl::DataLossError(fmt::format(
        "history: the head names event {}, the last event present is {}: events were removed or "
        "altered",
        head_.sequence, last_event));
  }
  return absl::OkStatus();
}

void History::AddEvent(const EventDraft& draft, std::string_view data, Head& head,
                       std::vector<StoreEdit>& batch) const {
  ++head.sequence;
  Json json{{"sequence", head.sequence},
            {"wall_ms", draft.wall_ms},
            {"node", draft.node},
            {"kind", draft.kind},
            {"text", draft.text}};
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (!data.empty()) {
    text.pop_back();
    text.append(",\"data\":").append(data).push_back('}');
  }
  head.hash = Sha256(head.hash, text);
  const std::string body = head.hash + text;
  batch.push_back({Table::kEvents, BigEndian(head.sequence), CrcOf(body) + body});
}

absl::Status History::AddChange(const HistoryWrite& write, Change& change, Head& head,
                                std::vector<StoreEdit>& batch) {
  std::optional<Change> before;
  if (change.id == 0) {
    change.id = ++head.last_change_id;
  } else {
    EBB_ASSIGN_OR_RETURN(before, GetChange(change.id));
  }
  ChangeIndex::AddEdits(before, change, batch);
  AddEvent({write.wall_ms, change.node, std::string(kChangeKind) + write.change_event,
            change.steps.empty() ? change.reason : change.steps.back().text},
           ChangeToJson(change), head, batch);
  batch.push_back({Table::kChanges, BigEndian(change.id), BigEndian(head.sequence)});
  return absl::OkStatus();
}

absl::Status History::Write(const HistoryWrite& write) {
  const std::lock_guard lock(write_mutex_);
  Head head = head_;
  std::vector<StoreEdit> batch;
  for (const EventDraft& draft : write.events) AddEvent(draft, draft.data, head, batch);
  // The caller's object changes only when the write succeeds.
  std::optional<Change> change;
  if (write.change != nullptr) {
    change = *write.change;
    EBB_RETURN_IF_ERROR(AddChange(write, *change, head, batch));
  }
  for (const auto& [key, value] : write.documents) {
    batch.push_back({Table::kDocuments, "doc/" + key, value});
  }
  batch.push_back({Table::kDocuments, std::string(kHeadKey),
                   BigEndian(head.sequence) + BigEndian(head.last_change_id) + head.hash});
  EBB_RETURN_IF_ERROR(store_->Write(batch, write.sync));
  head_ = std::move(head);
  if (change) write.change->id = change->id;
  return absl::OkStatus();
}

absl::StatusOr<Change> History::ReadChange(std::string_view pointer) {
  EBB_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                       store_->Get(Table::kEvents, pointer));
  const uint64_t sequence = FromBigEndian(pointer);
  if (!value) return absl::DataLossError(fmt::format("history: event {} is missing", sequence));
  EBB_ASSIGN_OR_RETURN(const EventParts parts, SplitEvent(sequence, *value));
  constexpr std::string_view kData = ",\"data\":";
  const size_t data = parts.json.find(kData);
  if (data == std::string_view::npos) {
    return absl::DataLossError(fmt::format("history: event {} holds no change", sequence));
  }
  return ChangeFromJson(
      parts.json.substr(data + kData.size(), parts.json.size() - data - kData.size() - 1));
}

absl::StatusOr<Change> History::GetChange(uint64_t id) {
  EBB_ASSIGN_OR_RETURN(const std::optional<std::string> pointer,
                       store_->Get(Table::kChanges, BigEndian(id)));
  if (!pointer) return absl::NotFoundError(fmt::format("there is no change {}", id));
  return ReadChange(*pointer);
}

absl::StatusOr<std::vector<Change>> History::Changes(const std::string& node,
                                                     const ChangeQuery& query) {
  std::optional<Change> before;
  if (query.before_id) {
    EBB_ASSIGN_OR_RETURN(before, GetChange(*query.before_id));
  }
  std::vector<Change> changes;
  absl::Status fault;
  EBB_RETURN_IF_ERROR(index_.Find(node, query, before, [&](uint64_t id) {
    absl::StatusOr<Change> change = GetChange(id);
    fault = change.status();
    if (!fault.ok()) return false;
    if (Matches(*change, query)) changes.push_back(*std::move(change));
    return changes.size() < query.limit;
  }));
  EBB_RETURN_IF_ERROR(fault);
  return changes;
}

absl::StatusOr<std::optional<std::string>> History::Document(const std::string& key) {
  return store_->Get(Table::kDocuments, "doc/" + key);
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> History::Documents(
    const std::string& prefix) {
  const std::string from = "doc/" + prefix;
  std::vector<std::pair<std::string, std::string>> found;
  EBB_RETURN_IF_ERROR(store_->Scan(Table::kDocuments, from, from + "\xff", /*descending=*/false,
                                   [&](std::string_view key, std::string_view value) {
                                     found.emplace_back(key.substr(4), value);
                                     return true;
                                   }));
  return found;
}

absl::Status History::Events(uint64_t after,
                             const std::function<bool(const HistoryEvent&)>& visit) {
  absl::Status fault;
  EBB_RETURN_IF_ERROR(
      store_->Scan(Table::kEvents, BigEndian(after + 1), BigEndian(UINT64_MAX),
                   /*descending=*/false, [&](std::string_view key, std::string_view value) {
                     const uint64_t sequence = FromBigEndian(key);
                     const auto parts = SplitEvent(sequence, value);
                     fault = parts.status();
                     return parts.ok() && visit({sequence, std::string(parts->json)});
                   }));
  return fault;
}

absl::StatusOr<VerifyReport> History::Verify(const std::string& noted_hash) {
  const std::lock_guard lock(write_mutex_);
  VerifyReport report;
  bool noted_seen = noted_hash.empty();
  std::string hash(kHashBytes, '\0');
  std::unordered_map<uint64_t, uint64_t> newest_event;  // of each change
  absl::Status fault;
  EBB_RETURN_IF_ERROR(store_->Scan(
      Table::kEvents, BigEndian(0), BigEndian(UINT64_MAX), /*descending=*/false,
      [&](std::string_view key, std::string_view value) {
        const uint64_t sequence = FromBigEndian(key);
        if (sequence != report.events + 1) {
          fault =
              absl::DataLossError(fmt::format("history: event {} is missing", report.events + 1));
          return false;
        }
        const auto parts = SplitEvent(sequence, value);
        fault = parts.status();
        if (!fault.ok()) return false;
        hash = Sha256(hash, parts->json);
        if (hash != parts->hash) {
          fault = absl::DataLossError(
              fmt::format("history: event {} or one before it was altered", sequence));
          return false;
        }
        noted_seen = noted_seen || Hex(hash) == noted_hash;
        if (const auto id = ChangeIdFinder::Find(parts->json)) newest_event[*id] = sequence;
        ++report.events;
        return true;
      }));
  EBB_RETURN_IF_ERROR(fault);
  if (report.events != head_.sequence || hash != head_.hash) {
    return absl::DataLossError(fmt::format("history: {} events present, the head names {}",
                                           report.events, head_.sequence));
  }
  EBB_RETURN_IF_ERROR(
      store_->Scan(Table::kChanges, BigEndian(0), BigEndian(UINT64_MAX), /*descending=*/false,
                   [&](std::string_view key, std::string_view value) {
                     const uint64_t id = FromBigEndian(key);
                     const auto found = newest_event.find(id);
                     if (found == newest_event.end() || found->second != FromBigEndian(value)) {
                       fault = absl::DataLossError(
                           fmt::format("history: change {} does not show its newest state", id));
                       return false;
                     }
                     ++report.changes;
                     return true;
                   }));
  EBB_RETURN_IF_ERROR(fault);
  if (report.changes != newest_event.size()) {
    return absl::DataLossError("history: a change is missing from the table of changes");
  }
  if (!noted_seen) {
    return absl::DataLossError(fmt::format(
        "history: no event has the noted hash {}: the history was rewritten since", noted_hash));
  }
  report.head_hash = Hex(hash);
  return report;
}

std::unique_ptr<History> MakeMemoryHistory() {
  absl::StatusOr<std::unique_ptr<History>> history = History::Open(MakeMemoryStore(), {});
  EBB_CHECK(history.ok());
  return *std::move(history);
}

absl::StatusOr<std::unique_ptr<History>> OpenHistory(const std::string& directory,
                                                     const HistoryConfig& config) {
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<OrderedStore> store, OpenRocksStore(directory));
  return History::Open(std::move(store), config);
}

absl::StatusOr<std::unique_ptr<History>> OpenHistoryForReading(const std::string& directory) {
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<OrderedStore> store, OpenRocksStoreForReading(directory));
  HistoryConfig config;
  config.read_only = true;
  return History::Open(std::move(store), config);
}

}  // namespace ebb::engine
