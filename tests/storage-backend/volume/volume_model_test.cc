// Random verbs, knob changes, background steps, restarts and kills, against a model that knows
// which versions each block may have.
#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "fmt/format.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kBlocks = 256;

// For each block, the versions acknowledged since the last flush, the flushed one first.
class Model {
 public:
  Model() : versions_(kBlocks, {0}) {}
  void Write(uint64_t block, uint64_t version) { versions_[block].push_back(version); }
  uint64_t Current(uint64_t block) const { return versions_[block].back(); }
  void Flush() {
    for (auto& versions : versions_) versions = {versions.back()};
  }
  // After a kill: the block has one of its candidates, which it keeps from now on.
  bool Settle(uint64_t block, uint64_t found) {
    auto& versions = versions_[block];
    if (std::find(versions.begin(), versions.end(), found) == versions.end()) return false;
    versions = {found};
    return true;
  }
  std::string Candidates(uint64_t block) const {
    return fmt::format("{}", fmt::join(versions_[block], ","));
  }

 private:
  std::vector<std::vector<uint64_t>> versions_;
};

class Scenario {
 public:
  Scenario(uint64_t seed, bool fake_tier)
      : rng_(seed),
        node_({.volume_bytes = kBlocks * kBlockBytes,
               .cache_bytes = (2 + 12 * 8) * kBlockBytes,
               .segment_bytes = 8 * kBlockBytes,
               .capacity_bytes = 16 << 20,
               .fake_tier = fake_tier,
               .background_threads = false,
               .read_cache_bytes = 1 << 20},
              clock_) {}

  void Go(int steps) {
    ASSERT_TRUE(node_.Open().ok());
    for (int step = 0; step < steps; ++step) {
      clock_.AdvanceNs(rng_.Below(2'000'000));
      Step();
      if (::testing::Test::HasFatalFailure()) return;
    }
    VerifyAll();
  }

 private:
  Volume& volume() { return node_.volume(); }

  void Step() {
    const uint64_t block = rng_.Below(kBlocks);
    const uint64_t count = 1 + rng_.Below(std::min<uint64_t>(kBlocks - block, 20));
    switch (rng_.Below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        Write(block, count, rng_.Chance(0.1));
        break;
      case 5:
      case 6:
      case 7:
      case 8:
        VerifyRange(block, count);
        break;
      case 9:
        Trim(block, count);
        break;
      case 10:
        ASSERT_TRUE(volume().Flush().ok());
        model_.Flush();
        break;
      case 11:
      case 12:
        ASSERT_TRUE(volume().RunBackgroundStep().ok());
        break;
      case 13:
        ChangeKnob();
        break;
      case 14:
        if (rng_.Chance(0.2)) Drain();
        break;
      default:
        if (rng_.Chance(0.3)) Restart();
        break;
    }
  }

  void Write(uint64_t block, uint64_t count, bool fua) {
    AlignedBuffer data(count * kBlockBytes);
    for (uint64_t i = 0; i < count; ++i) {
      const AlignedBuffer one = MakeBlock(block + i, ++version_);
      std::copy_n(one.data(), kBlockBytes, data.data() + i * kBlockBytes);
      model_.Write(block + i, version_);
    }
    const absl::Status status = volume().Write(block * kBlockBytes, data.span(), fua);
    ASSERT_TRUE(status.ok()) << status;
    if (!fua) return;
    for (uint64_t i = 0; i < count; ++i) model_.Settle(block + i, model_.Current(block + i));
  }

  void Trim(uint64_t block, uint64_t count) {
    const bool zeroes = rng_.Chance(0.5);
    const auto status = zeroes
                            ? volume().WriteZeroes(block * kBlockBytes, count * kBlockBytes, false)
                            : volume().Trim(block * kBlockBytes, count * kBlockBytes, false);
    ASSERT_TRUE(status.ok()) << status;
    for (uint64_t i = 0; i < count; ++i) model_.Write(block + i, 0);
  }

  void VerifyRange(uint64_t block, uint64_t count) {
    std::vector<std::byte> data(count * kBlockBytes);
    const absl::Status status = volume().Read(block * kBlockBytes, data);
    ASSERT_TRUE(status.ok()) << status;
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(VersionOf(block + i, std::span(data).subspan(i * kBlockBytes, kBlockBytes)),
                model_.Current(block + i))
          << "block " << block + i;
    }
  }

  void VerifyAll() { VerifyRange(0, kBlocks); }

  void ChangeKnob() {
    const auto& table = KnobTable();
    const KnobSpec& spec = table[rng_.Below(table.size())];
    const auto choices = static_cast<uint64_t>((spec.max - spec.min) / spec.step + 1);
    int64_t value = spec.min + static_cast<int64_t>(rng_.Below(choices)) * spec.step;
    if (spec.id == KnobId::kReadCacheBytes) {
      value = static_cast<int64_t>(rng_.Below(4)) << 20;
    }
    Setting setting = volume().CurrentSetting();
    setting.Set(spec.id, value);
    ASSERT_TRUE(volume().Apply(setting).ok());
  }

  void Drain() {
    ASSERT_TRUE(volume().Drain(nullptr).ok());
    ASSERT_EQ(volume().Metrics().dirty_bytes, 0U);
  }

  void Restart() {
    const bool clean = rng_.Chance(0.4);
    if (clean) {
      ASSERT_TRUE(volume().Close().ok());
      model_.Flush();
    }
    const absl::Status status = node_.Open();
    ASSERT_TRUE(status.ok()) << status;
    std::vector<std::byte> data(kBlockBytes);
    for (uint64_t block = 0; block < kBlocks; ++block) {
      ASSERT_TRUE(volume().Read(block * kBlockBytes, data).ok());
      const uint64_t found = VersionOf(block, data);
      const std::string candidates = model_.Candidates(block);
      ASSERT_TRUE(model_.Settle(block, found)) << "block " << block << " came back as version "
                                               << found << ", not one of " << candidates;
    }
  }

  Rng rng_;
  ManualClock clock_;
  TestNode node_;
  Model model_;
  uint64_t version_ = 0;
};

TEST(VolumeModelTest, AgreesWithTheModelOverAFakeTier) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Scenario(seed, /*fake_tier=*/true).Go(600);
    if (HasFatalFailure()) return;
  }
}

TEST(VolumeModelTest, AgreesWithTheModelOverTheRealTier) {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Scenario(1000 + seed, /*fake_tier=*/false).Go(600);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ebb::storage
