// A capacity tier over simulated disks with a model of what it must hold.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/aligned_buffer.h"
#include "base/crc32c.h"
#include "base/rng.h"
#include "storage-backend/capacity/capacity_tier.h"
#include "storage-backend/capacity/layout.h"
#include "storage-backend/device/faulty_device.h"
#include "storage-backend/metadata/mem_metadata.h"

namespace ebb::storage {

inline constexpr uint64_t kTestBlock = kCapacityBlockBytes;

// A block's content in one number: the low three bits choose the kind, the rest is the seed.
struct Content {
  enum Kind : uint8_t { kRandom, kText, kZero };
  Kind kind = kRandom;
  uint64_t seed = 0;
  friend bool operator==(const Content&, const Content&) = default;
};

inline void Fill(const Content& content, std::byte* out) {
  Rng rng(content.seed * 3 + content.kind);
  switch (content.kind) {
    case Content::kRandom:
      for (size_t i = 0; i < kTestBlock; i += 8) {
        const uint64_t number = rng.Next();
        std::memcpy(out + i, &number, sizeof number);
      }
      return;
    case Content::kText: {
      static const char* const kWords[] = {"ebb and flow ",  "burst ",      "destage",
                                           " of the tide, ", "write-back ", "the cache "};
      size_t at = 0;
      while (at < kTestBlock) {
        const char* word = kWords[rng.Below(6)];
        const size_t bytes = std::min(std::strlen(word), kTestBlock - at);
        std::memcpy(out + at, word, bytes);
        at += bytes;
      }
      return;
    }
    case Content::kZero:
      std::memset(out, 0, kTestBlock);
      return;
  }
}

using Model = std::map<uint64_t, Content>;

class TierHarness {
 public:
  explicit TierHarness(std::vector<uint64_t> device_bytes = {16 << 20}, uint64_t seed = 1)
      : power(std::make_shared<PowerSource>()), metadata(std::make_unique<MemMetadata>()) {
    for (size_t i = 0; i < device_bytes.size(); ++i) {
      disks.push_back(FaultyDisk::Make({.name = "capacity" + std::to_string(i),
                                        .size_bytes = device_bytes[i],
                                        .seed = seed + i,
                                        .power = power}));
    }
  }

  // Closes and opens the tier, as a restart without a crash does.
  absl::Status Open() {
    tier.reset();
    devices.clear();
    std::vector<Device*> borrowed;
    for (const auto& disk : disks) {
      devices.push_back(disk->Open());
      borrowed.push_back(devices.back().get());
    }
    absl::StatusOr<std::unique_ptr<CapacityTier>> opened =
        CapacityTier::OpenTuned(borrowed, metadata.get(), {}, tuning);
    if (!opened.ok()) return opened.status();
    tier = *std::move(opened);
    return absl::OkStatus();
  }

  // The power fails (or failed already); what was not flushed or committed durably is gone in part.
  absl::Status CrashAndOpen(uint64_t seed) {
    tier.reset();
    devices.clear();
    power->Cut();
    power->Restore();
    for (const auto& disk : disks) disk->Reboot(seed++);
    metadata->Crash();
    metadata->FailCommitFrom(0);
    return Open();
  }

  absl::Status Store(const Model& changes, const StoreOptions& options,
                     StoreReport* report = nullptr,
                     const std::function<bool()>& keep_going = nullptr) {
    AlignedBuffer data(std::max<size_t>(changes.size(), 1) * kTestBlock);
    std::vector<StoreBlock> blocks;
    for (const auto& [block, content] : changes) {
      std::byte* const at = data.data() + blocks.size() * kTestBlock;
      Fill(content, at);
      blocks.push_back({.block = block, .data = at, .crc32c = Crc32c({at, kTestBlock})});
    }
    return tier->Store(blocks, options, report, keep_going);
  }

  // Empty when every block of [0, blocks) reads as `model` says, read `at_once` blocks at a time.
  std::string Compare(const Model& model, uint64_t blocks, uint64_t at_once = 64) {
    AlignedBuffer out(at_once * kTestBlock);
    std::vector<std::byte> expected(kTestBlock);
    auto mapped = std::make_unique<bool[]>(at_once);
    for (uint64_t first = 0; first < blocks; first += at_once) {
      const uint64_t count = std::min(at_once, blocks - first);
      std::memset(out.data(), 0xa5, out.size());
      const absl::Status status =
          tier->Read(first, count, out.data(), std::span<bool>(mapped.get(), count));
      if (!status.ok()) return std::string(status.message());
      for (uint64_t i = 0; i < count; ++i) {
        const auto content = model.find(first + i);
        if (mapped[i] != (content != model.end())) {
          return "block " + std::to_string(first + i) + (mapped[i] ? " is" : " is not") + " mapped";
        }
        Fill(content == model.end() ? Content{Content::kZero, 0} : content->second,
             expected.data());
        if (std::memcmp(expected.data(), out.data() + i * kTestBlock, kTestBlock) != 0) {
          return "block " + std::to_string(first + i) + " has a wrong content";
        }
      }
    }
    return "";
  }

  // Empty when Check finds nothing; else the first fault.
  std::string Faults() {
    const absl::StatusOr<std::vector<std::string>> faults = tier->Check();
    if (!faults.ok()) return std::string(faults.status().message());
    return faults->empty() ? "" : faults->front();
  }

  // Small enough that pages are written back, forgotten and replayed all the time.
  CapacityTuning tuning{.map_cache_bytes = 8 << 10, .journal_bytes_max = 4 << 10};
  std::shared_ptr<PowerSource> power;
  std::vector<std::shared_ptr<FaultyDisk>> disks;
  std::unique_ptr<MemMetadata> metadata;
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<CapacityTier> tier;
};

// `count` blocks from `first` with contents of one kind, seeds counting from `seed`.
inline Model Blocks(uint64_t first, uint64_t count, Content::Kind kind, uint64_t seed) {
  Model model;
  for (uint64_t i = 0; i < count; ++i) model[first + i] = {kind, seed + i};
  return model;
}

inline void Apply(const Model& changes, Model& model) {
  for (const auto& [block, content] : changes) model[block] = content;
}

}  // namespace ebb::storage
