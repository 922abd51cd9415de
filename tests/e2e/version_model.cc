#include "tests/e2e/version_model.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/rng.h"
#include "fmt/format.h"

namespace ebb::testing {
namespace {

struct Stamp {
  uint64_t block = 0;
  uint64_t version = 0;
  uint32_t crc32c = 0;  // of the rest of the block
  uint32_t mark = 0;
};
constexpr uint32_t kMark = 0x65626221;

bool IsZero(std::span<const std::byte> content) {
  return std::all_of(content.begin(), content.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

void VersionModel::Fill(uint64_t block, uint64_t version, std::span<std::byte> out) {
  EBB_CHECK(out.size() == kModelBlockBytes);
  // Half noise, half a pattern, so that the codec has something to do.
  Rng rng(block * 1'000'003 + version);
  const std::span<std::byte> body = out.subspan(sizeof(Stamp));
  std::memset(body.data(), static_cast<int>(version & 0xff), body.size());
  for (size_t i = 0; i + 8 <= body.size() / 2; i += 8) {
    const uint64_t noise = rng.Next();
    std::memcpy(body.data() + i, &noise, sizeof noise);
  }
  const Stamp stamp{block, version, Crc32c(body), kMark};
  std::memcpy(out.data(), &stamp, sizeof stamp);
}

uint64_t VersionModel::Send(uint64_t first, uint64_t count, bool zeroes) {
  const uint64_t version = ++last_version_;
  for (uint64_t i = first; i < first + count; ++i) blocks_[i].legal.push_back({version, zeroes});
  return version;
}

void VersionModel::Acknowledge(uint64_t first, uint64_t count, uint64_t version, bool fua) {
  for (uint64_t i = first; i < first + count; ++i) {
    blocks_[i].acknowledged = version;
    if (fua) MakeDurable(blocks_[i], version);
  }
}

std::vector<uint64_t> VersionModel::AcknowledgedVersions() const {
  std::vector<uint64_t> versions;
  versions.reserve(blocks_.size());
  for (const Block& block : blocks_) versions.push_back(block.acknowledged);
  return versions;
}

void VersionModel::Flushed(const std::vector<uint64_t>& covered) {
  for (size_t i = 0; i < blocks_.size(); ++i) MakeDurable(blocks_[i], covered[i]);
}

void VersionModel::MakeDurable(Block& block, uint64_t version) {
  const auto first_legal =
      std::find_if(block.legal.begin(), block.legal.end(),
                   [&](const Entry& entry) { return entry.version >= version; });
  EBB_CHECK(first_legal != block.legal.end());
  block.legal.erase(block.legal.begin(), first_legal);
}

std::string VersionModel::CheckAndAdopt(uint64_t block, std::span<const std::byte> content) {
  Block& state = blocks_[block];
  if (state.legal.size() > 1) ++ambiguous_blocks_;
  const bool zeroes = IsZero(content);
  Stamp stamp;
  std::memcpy(&stamp, content.data(), sizeof stamp);
  if (!zeroes) {
    if (stamp.mark != kMark || stamp.crc32c != Crc32c(content.subspan(sizeof stamp))) {
      return fmt::format("block {}: neither zeroes nor a whole block of ours", block);
    }
    if (stamp.block != block) {
      return fmt::format("block {}: shows the content of block {}", block, stamp.block);
    }
  }
  const auto seen = std::find_if(state.legal.rbegin(), state.legal.rend(), [&](const Entry& entry) {
    return entry.zeroes == zeroes && (zeroes || entry.version == stamp.version);
  });
  if (seen == state.legal.rend()) {
    return fmt::format("block {}: shows {}, but versions from {}{} to {} are legal", block,
                       zeroes ? "zeroes" : fmt::format("version {}", stamp.version),
                       state.legal.front().version, state.legal.front().zeroes ? " (zeroes)" : "",
                       state.legal.back().version);
  }
  const Entry adopted = *seen;
  state.legal = {adopted};
  state.acknowledged = adopted.version;
  return "";
}

}  // namespace ebb::testing
