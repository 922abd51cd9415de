// FIU (SNIA IODedup): requests with the MD5 of their content.
//
//   time_ns pid process sector sectors R|W major minor md5
//
// The digest has 32 hexadecimal digits for each 4 KiB page, or for each sector of it (homes: 256 a
// page); which of the two, its length and the request's say. A page's fingerprint is a hash of its
// digest, with "does not shrink" in its lowest bits (trace_content.h), because these traces do not
// say how compressible a page is; a page of zeroes has fingerprint 0.
#include <algorithm>
#include <array>
#include <cstddef>

#include <xxhash.h>

#include "env/trace/formats/fields.h"
#include "env/trace/formats/format_table.h"

namespace ebb::env {
namespace {

using trace::kTraceBlockBytes;
using trace::TraceOp;
using trace::TraceRecord;

constexpr size_t kColumns = 9;
constexpr size_t kBlanksInNameMax = 7;
constexpr size_t kDigestLetters = 32;
constexpr uint64_t kSectorsPerPage = kTraceBlockBytes / kSectorBytes;
constexpr uint64_t kDoesNotShrink = 15;
constexpr std::string_view kZeroSector = "bf619eac0cdf3f68d496ea9344137e8b";
constexpr std::string_view kZeroPage = "620f0b67a91f7f74151bc5be745b7110";

bool IsZeroes(std::string_view digests) {
  if (digests == kZeroPage) return true;
  if (digests.size() < kSectorsPerPage * kDigestLetters) return false;
  for (size_t at = 0; at < digests.size(); at += kDigestLetters) {
    if (digests.substr(at, kDigestLetters) != kZeroSector) return false;
  }
  return true;
}

uint64_t WithLevel(uint64_t hash) { return hash | kDoesNotShrink; }

uint64_t PageFingerprint(std::string_view digests) {
  return IsZeroes(digests) ? 0 : WithLevel(XXH3_64bits(digests.data(), digests.size()));
}

// Fingerprints of the 4 KiB blocks of the device from those of the request's pages. Where the
// request is not aligned, a block is the end of one page and the begin of the next: equal pairs in
// the same position stay equal.
void FillBlocks(std::span<const uint64_t> pages, TraceRecord* record) {
  const uint64_t shift = record->offset % kTraceBlockBytes;
  const uint64_t blocks = trace::BlocksTouched(record->offset, record->bytes);
  record->fingerprints.resize(blocks);
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t before = i > 0 ? pages[i - 1] : 0;
    const uint64_t behind = i < pages.size() ? pages[i] : 0;
    if (shift == 0) {
      record->fingerprints[i] = behind;
    } else if (before == 0 && behind == 0) {
      record->fingerprints[i] = 0;
    } else {
      const std::array<uint64_t, 3> parts = {before, behind, shift};
      record->fingerprints[i] = WithLevel(XXH3_64bits(parts.data(), sizeof parts));
    }
  }
}

bool IsDigest(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char letter) {
    return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f');
  });
}

class FiuParser final : public EntryParser {
 public:
  Entry Parse(std::string_view line, TraceRecord* record) override {
    std::array<std::string_view, kColumns + kBlanksInNameMax> all;
    const size_t count = SplitBlanks(line, all);
    if (count == 0) return Entry::Message();
    if (count < kColumns || count > all.size()) return Entry::Broken("it has not nine columns");
    // A process's name may hold blanks: what follows it is counted from the end.
    std::array<std::string_view, kColumns> fields;
    std::copy_n(all.begin(), 3, fields.begin());
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(count - kColumns + 3), kColumns - 3,
                fields.begin() + 3);
    uint64_t sector = 0;
    uint64_t sectors = 0;
    uint64_t major = 0;
    uint64_t minor = 0;
    if (!ParseNumber(fields[0], &record->time_ns) || !ParseNumber(fields[3], &sector) ||
        !ParseNumber(fields[4], &sectors) || !ParseNumber(fields[6], &major) ||
        !ParseNumber(fields[7], &minor) || major >= 1U << 12 || minor >= 1U << 20) {
      return Entry::Broken("a column is no number");
    }
    if (fields[5] != "R" && fields[5] != "W") {
      return Entry::Broken("the operation is neither R nor W");
    }
    record->op = fields[5] == "R" ? TraceOp::kRead : TraceOp::kWrite;
    record->device = major << 20 | minor;
    if (!SetPlace(sector, sectors, kSectorBytes, record)) {
      return Entry::Broken("it reaches beyond 2^64 bytes");
    }
    return ReadDigests(fields[8], sectors, record);
  }

 private:
  Entry ReadDigests(std::string_view digests, uint64_t sectors, TraceRecord* record) {
    if (!IsDigest(digests) || digests.size() % kDigestLetters != 0) {
      return Entry::Broken("the digest is not of 32 hexadecimal digits each");
    }
    const uint64_t digest_count = digests.size() / kDigestLetters;
    const uint64_t page_count = (sectors + kSectorsPerPage - 1) / kSectorsPerPage;
    uint64_t digests_per_page = 1;
    if (digest_count != page_count) {
      if (digest_count != sectors) return Entry::Broken("digests and pages differ in number");
      digests_per_page = kSectorsPerPage;
    }
    pages_.clear();
    const size_t letters = digests_per_page * kDigestLetters;
    for (size_t at = 0; at < digests.size(); at += letters) {
      pages_.push_back(PageFingerprint(digests.substr(at, letters)));
    }
    FillBlocks(pages_, record);
    if (record->op == TraceOp::kWrite) {
      const auto zeroes = static_cast<uint64_t>(std::count(pages_.begin(), pages_.end(), 0U));
      record->compressed_per_mille =
          page_count == 0 ? uint16_t{0}
                          : static_cast<uint16_t>((page_count - zeroes) * 1000 / page_count);
    }
    return Entry::Record();
  }

  std::vector<uint64_t> pages_;  // kept for its memory
};

std::unique_ptr<EntryParser> MakeFiuParser(const TraceOptions& /*options*/) {
  return std::make_unique<FiuParser>();
}

// The times of the flushes that a FIU recording has no rows for: one number of ns a line.
Entry ParseFlushTime(std::string_view line, TraceRecord* record) {
  const std::string_view text = TrimBlanks(line);
  if (text.empty()) return Entry::Message();
  if (!ParseNumber(text, &record->time_ns)) return Entry::Broken("it is no time");
  record->op = TraceOp::kFlush;
  return Entry::Record();
}

constexpr std::array kFormats = {
    TraceFormat{.name = "fiu",
                .help = "FIU with MD5: time_ns pid process sector sectors R|W major minor md5",
                .has_content = true,
                .make_parser = MakeFiuParser},
    TraceFormat{.name = "flushes",
                .help = "times of flushes beside a FIU trace: time_ns",
                .make_parser = MakeStatelessParser<ParseFlushTime>},
};

}  // namespace

std::span<const TraceFormat> FiuFormats() { return kFormats; }

}  // namespace ebb::env
