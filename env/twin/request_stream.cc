#include "env/twin/request_stream.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace ebb::twin {
namespace {

constexpr uint64_t kPageBytes = uint64_t{kPageBlocks} * kBlockBytes;

uint64_t Mix(uint64_t key) {
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
  return key ^ (key >> 31);
}

}  // namespace

uint32_t RequestStream::DensePage(uint64_t place) {
  const auto [found, is_new] = dense_pages_.try_emplace(static_cast<uint32_t>(place),
                                                        static_cast<uint32_t>(page_places_.size()));
  if (is_new) {
    EBB_CHECK(page_places_.size() < (uint64_t{1} << (31 - kPageShift)));
    page_places_.push_back(static_cast<uint32_t>(place));
  }
  return found->second;
}

uint32_t RequestStream::AddContents(const trace::TraceRecord& record) {
  if (record.fingerprints.size() != trace::BlocksTouched(record.offset, record.bytes)) {
    return Request::kUnique;
  }
  const auto first = static_cast<uint32_t>(contents_.size());
  for (const uint64_t fingerprint : record.fingerprints) {
    const auto [found, is_new] = content_numbers_.try_emplace(fingerprint, content_count_ + 1);
    if (is_new) ++content_count_;
    contents_.push_back(found->second);
  }
  return first;
}

void RequestStream::AddPieces(const trace::TraceRecord& record, RequestKind kind) {
  const uint64_t volume_blocks = volume_bytes_ / kBlockBytes;
  uint64_t first = record.offset / kBlockBytes;
  uint64_t end = (record.offset + record.bytes + kBlockBytes - 1) / kBlockBytes;
  if (kind == RequestKind::kTrim) {
    // Advice: blocks trimmed in part keep what they hold.
    first = (record.offset + kBlockBytes - 1) / kBlockBytes;
    end = std::max(first, (record.offset + record.bytes) / kBlockBytes);
  }
  const uint32_t contents = kind == RequestKind::kWrite ? AddContents(record) : Request::kUnique;
  const size_t begin = requests_.size();
  for (uint64_t at = first; at < end;) {
    const uint64_t in_page = at % kPageBlocks;
    const uint64_t count = std::min(end - at, kPageBlocks - in_page);
    const uint64_t place = at % volume_blocks / kPageBlocks;
    // Only pages that some request has touched can hold anything to be trimmed.
    if (kind != RequestKind::kTrim || dense_pages_.contains(static_cast<uint32_t>(place))) {
      Request piece{
          .time_ns = record.time_ns,
          .first_block = (DensePage(place) << kPageShift) + static_cast<uint32_t>(in_page),
          .content = contents,
          .blocks = static_cast<uint16_t>(count),
          .compressed_per_mille = record.compressed_per_mille,
          .kind = kind,
          .flags = Request::kContinues};
      if (contents != Request::kUnique) piece.content += static_cast<uint32_t>(at - first);
      requests_.push_back(piece);
      block_operations_ += count;
    }
    at += count;
  }
  if (requests_.size() == begin) return;
  Request& head = requests_[begin];
  Request& tail = requests_.back();
  head.bytes = static_cast<uint32_t>(std::min<uint64_t>(record.bytes, UINT32_MAX));
  tail.flags &= static_cast<uint8_t>(~Request::kContinues);
  if (record.fua) head.flags |= Request::kFua;
  if (kind != RequestKind::kTrim) {
    if (record.offset % kBlockBytes != 0) head.flags |= Request::kPartialFirst;
    if ((record.offset + record.bytes) % kBlockBytes != 0) tail.flags |= Request::kPartialLast;
  }
  ++request_count_;
}

void RequestStream::Add(const trace::TraceRecord& record) {
  EBB_CHECK(requests_.empty() || record.time_ns >= requests_.back().time_ns);
  duration_ns_ = std::max(duration_ns_, record.time_ns);
  switch (record.op) {
    case trace::TraceOp::kFlush:
      requests_.push_back({.time_ns = record.time_ns, .kind = RequestKind::kFlush});
      ++request_count_;
      return;
    case trace::TraceOp::kRead:
      return AddPieces(record, RequestKind::kRead);
    case trace::TraceOp::kWrite:
      return AddPieces(record, RequestKind::kWrite);
    case trace::TraceOp::kTrim:
    case trace::TraceOp::kWriteZeroes:
      return AddPieces(record, RequestKind::kTrim);
  }
}

void RequestStream::SetDivisor(double divisor, uint32_t time_divisor) {
  EBB_CHECK(divisor >= 1 && time_divisor >= 1);
  divisor_ = divisor;
  time_divisor_ = time_divisor;
}

void RequestStream::Close(uint64_t duration_ns) {
  duration_ns_ = std::max(duration_ns_, duration_ns);
  dense_pages_.clear();
  content_numbers_.clear();
  // Content that is written once can never be found again: only the others keep a number.
  std::vector<uint32_t> uses(content_count_ + 1, 0);
  for (const uint32_t content : contents_) ++uses[content];
  std::vector<uint32_t> numbers(content_count_ + 1, 0);
  content_count_ = 0;
  for (size_t i = 1; i < uses.size(); ++i) {
    if (uses[i] > 1) numbers[i] = ++content_count_;
  }
  for (uint32_t& content : contents_) content = numbers[content];
  LinkPages();
}

void RequestStream::LinkPages() {
  std::vector<std::pair<uint32_t, uint32_t>> by_place;
  for (uint32_t page = 0; page < page_count(); ++page)
    by_place.emplace_back(page_places_[page], page);
  std::sort(by_place.begin(), by_place.end());
  next_pages_.assign(page_count(), kNoPage);
  for (size_t i = 1; i < by_place.size(); ++i) {
    if (by_place[i].first == by_place[i - 1].first + 1)
      next_pages_[by_place[i - 1].second] = by_place[i].second;
  }
}

// Pages by traffic, reads and writes apart, cut into strata of `divisor` pages; of each stratum the
// page with which the sum so far stays nearest to a divisor-th of all. `seed` decides between equal
// ones. The result is the new number of each page, or kNoPage.
std::vector<uint32_t> RequestStream::ChoosePages(uint32_t divisor, uint64_t seed) const {
  struct Traffic {
    double reads = 0;
    double writes = 0;
  };
  std::vector<Traffic> traffic(page_places_.size());
  for (const Request& request : requests_) {
    if (request.kind == RequestKind::kFlush) continue;
    Traffic& page = traffic[request.first_block >> kPageShift];
    (request.kind == RequestKind::kRead ? page.reads : page.writes) += 1;
  }
  std::vector<uint32_t> order(page_places_.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const Traffic& x = traffic[a];
    const Traffic& y = traffic[b];
    const bool x_writes = x.writes > x.reads;
    const bool y_writes = y.writes > y.reads;
    if (x_writes != y_writes) return x_writes;
    if (x.reads + x.writes != y.reads + y.writes) return x.reads + x.writes > y.reads + y.writes;
    return Mix(a ^ seed) < Mix(b ^ seed);
  });
  std::vector<uint32_t> chosen(page_places_.size(), kNoPage);
  Traffic error;
  for (size_t begin = 0; begin < order.size(); begin += divisor) {
    const std::span<const uint32_t> stratum =
        std::span(order).subspan(begin, std::min<size_t>(divisor, order.size() - begin));
    Traffic sum;
    for (const uint32_t page : stratum) {
      sum.reads += traffic[page].reads;
      sum.writes += traffic[page].writes;
    }
    uint32_t best = stratum[0];
    double best_distance = 0;
    for (size_t i = 0; i < stratum.size(); ++i) {
      const uint32_t page = stratum[(i + Mix(begin ^ seed)) % stratum.size()];
      const double reads = error.reads + traffic[page].reads - sum.reads / divisor;
      const double writes = error.writes + traffic[page].writes - sum.writes / divisor;
      const double distance = reads * reads + writes * writes;
      if (i > 0 && distance >= best_distance) continue;
      best = page;
      best_distance = distance;
    }
    error.reads += traffic[best].reads - sum.reads / divisor;
    error.writes += traffic[best].writes - sum.writes / divisor;
    chosen[best] = 0;
  }
  return chosen;
}

void RequestStream::CopySampled(const RequestStream& from, std::span<const uint32_t> new_pages,
                                uint32_t divisor) {
  uint64_t flushes = 0;
  std::vector<Request> kept;
  for (size_t i = 0; i < from.requests_.size();) {
    if (from.requests_[i].kind == RequestKind::kFlush) {
      if (flushes++ % divisor == divisor / 2) {
        requests_.push_back(from.requests_[i]);
        ++request_count_;
      }
      ++i;
      continue;
    }
    kept.clear();
    const uint32_t bytes = from.requests_[i].bytes;
    const uint8_t fua = from.requests_[i].flags & Request::kFua;
    uint32_t all_blocks = 0;
    uint32_t kept_blocks = 0;
    for (bool more = true; more; ++i) {
      Request piece = from.requests_[i];
      more = (piece.flags & Request::kContinues) != 0;
      all_blocks += piece.blocks;
      const uint32_t page = new_pages[piece.first_block >> kPageShift];
      if (page == kNoPage) continue;
      piece.first_block = (page << kPageShift) + piece.first_block % kPageBlocks;
      piece.bytes = 0;
      piece.flags |= Request::kContinues;
      kept_blocks += piece.blocks;
      kept.push_back(piece);
    }
    if (kept.empty()) continue;
    kept.front().bytes =
        kept_blocks == all_blocks ? bytes : static_cast<uint32_t>(kept_blocks * kBlockBytes);
    kept.front().flags |= fua;
    kept.back().flags &= static_cast<uint8_t>(~Request::kContinues);
    requests_.insert(requests_.end(), kept.begin(), kept.end());
    block_operations_ += kept_blocks;
    ++request_count_;
  }
}

void RequestStream::CopyContents(const RequestStream& from) {
  std::vector<bool> seen(from.content_count_ + 1, false);
  std::vector<bool> seen_here(from.content_count_ + 1, false);
  std::vector<uint32_t> kept;
  std::vector<bool> outside(from.contents_.size(), false);
  // What was written before by anybody, in the order of the whole load.
  for (const Request& request : from.requests_) {
    if (request.kind != RequestKind::kWrite || request.content == Request::kUnique) continue;
    for (uint32_t i = request.content; i < request.content + request.blocks; ++i) {
      const uint32_t content = from.contents_[i];
      outside[i] = content != 0 && seen[content];
      seen[content] = true;
    }
  }
  for (Request& request : requests_) {
    if (request.kind != RequestKind::kWrite || request.content == Request::kUnique) continue;
    const uint32_t first = request.content;
    request.content = static_cast<uint32_t>(kept.size());
    for (uint32_t i = first; i < first + request.blocks; ++i) {
      const uint32_t content = from.contents_[i];
      const bool elsewhere = outside[i] && !seen_here[content];
      kept.push_back(elsewhere ? content | kSeenOutside : content);
      seen_here[content] = true;
    }
  }
  contents_ = std::move(kept);
  content_count_ = from.content_count_;
}

RequestStream RequestStream::Sample(uint32_t divisor, uint64_t seed) const {
  EBB_CHECK(divisor > 0 && dense_pages_.empty());
  if (divisor == 1 || requests_.empty()) return *this;
  RequestStream sampled(std::max(volume_bytes_ / divisor, kPageBytes));
  std::vector<uint32_t> new_pages = ChoosePages(divisor, seed);
  // Places keep their order, and what the load never touches its share: a scan of the load is a
  // scan of the sample.
  std::vector<uint32_t> order(page_places_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return page_places_[a] < page_places_[b]; });
  std::vector<uint32_t> places(page_places_.size(), 0);
  uint32_t next_place = 0;
  uint32_t chosen = 0;
  for (uint32_t rank = 0; rank < order.size(); ++rank) {
    if (new_pages[order[rank]] == kNoPage) continue;
    const uint32_t untouched = page_places_[order[rank]] - rank;
    places[order[rank]] = chosen++ + untouched / divisor;
    next_place = places[order[rank]] + 1;
  }
  sampled.volume_bytes_ = std::max(sampled.volume_bytes_, next_place * kPageBytes);
  for (uint32_t page = 0; page < new_pages.size(); ++page) {
    if (new_pages[page] == kNoPage) continue;
    new_pages[page] = static_cast<uint32_t>(sampled.page_places_.size());
    sampled.page_places_.push_back(places[page]);
  }
  sampled.LinkPages();
  sampled.CopySampled(*this, new_pages, divisor);
  sampled.CopyContents(*this);
  sampled.divisor_ = divisor_ * page_count() / sampled.page_count();
  sampled.time_divisor_ = time_divisor_ * divisor;
  // The rate stays what it was, although the sample may have a little more or less than its share.
  const double shrink = static_cast<double>(std::max<uint64_t>(sampled.request_count_, 1)) /
                        static_cast<double>(request_count_);
  for (Request& request : sampled.requests_) {
    request.time_ns = static_cast<uint64_t>(static_cast<double>(request.time_ns) * shrink);
  }
  sampled.duration_ns_ = static_cast<uint64_t>(static_cast<double>(duration_ns_) * shrink);
  return sampled;
}

}  // namespace ebb::twin
