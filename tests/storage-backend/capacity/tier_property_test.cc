// Any sequence of stores, removals, reads, compactions and restarts matches a model in memory.
#include <cstdint>
#include <string>
#include <vector>

// gtest first: rapidcheck's adapter expects it.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/storage-backend/capacity/capacity_test_util.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kBlocks = 300;

struct Operation {
  enum Kind : uint8_t { kStore, kRemove, kRead, kCompact, kReopen, kCrash };
  Kind kind = kStore;
  Model changes;         // store
  StoreOptions options;  // store
  uint64_t first = 0;    // remove, read
  uint64_t count = 1;
};

std::ostream& operator<<(std::ostream& out, const Operation& operation) {
  static const char* const kNames[] = {"store", "remove", "read", "compact", "reopen", "crash"};
  out << kNames[operation.kind] << " " << operation.first << "+" << operation.count << " codec "
      << static_cast<int>(operation.options.compression) << " unit " << operation.options.unit_bytes
      << " dedup " << static_cast<int>(operation.options.dedup) << " {";
  for (const auto& [block, content] : operation.changes) {
    out << block << ":" << static_cast<int>(content.kind) << "/" << content.seed << " ";
  }
  return out << "}";
}

}  // namespace
}  // namespace ebb::storage

namespace rc {

using ebb::storage::Compression;
using ebb::storage::Content;
using ebb::storage::Dedup;
using ebb::storage::Model;
using ebb::storage::Operation;
using ebb::storage::StoreOptions;

template <>
struct Arbitrary<Content> {
  static Gen<Content> arbitrary() {
    // Few seeds, so that contents repeat.
    return gen::build<Content>(
        gen::set(&Content::kind, gen::element(Content::kRandom, Content::kText, Content::kZero)),
        gen::set(&Content::seed, gen::inRange<uint64_t>(0, 40)));
  }
};

// Runs of neighbours and scattered blocks.
Gen<Model> AnyChanges() {
  const auto scattered = gen::container<Model>(gen::inRange<uint64_t>(0, ebb::storage::kBlocks),
                                               gen::arbitrary<Content>());
  const auto run = gen::apply(
      [](uint64_t first, const std::vector<Content>& contents) {
        Model model;
        for (const Content& content : contents) {
          if (first < ebb::storage::kBlocks) model[first++] = content;
        }
        return model;
      },
      gen::inRange<uint64_t>(0, ebb::storage::kBlocks), gen::arbitrary<std::vector<Content>>());
  return gen::oneOf(scattered, run);
}

template <>
struct Arbitrary<StoreOptions> {
  static Gen<StoreOptions> arbitrary() {
    return gen::build<StoreOptions>(
        gen::set(&StoreOptions::compression,
                 gen::element(Compression::kOff, Compression::kLz4, Compression::kZstd1,
                              Compression::kZstd3)),
        gen::set(&StoreOptions::unit_bytes, gen::element<uint32_t>(4096, 16384, 32768, 131072)),
        gen::set(&StoreOptions::dedup, gen::element(Dedup::kOff, Dedup::kOn, Dedup::kSampled)),
        gen::set(&StoreOptions::parallelism, gen::inRange(1, 9)),
        gen::set(&StoreOptions::threads, gen::inRange(1, 4)));
  }
};

template <>
struct Arbitrary<Operation> {
  static Gen<Operation> arbitrary() {
    return gen::build<Operation>(
        gen::set(&Operation::kind, gen::weightedElement<Operation::Kind>({{6, Operation::kStore},
                                                                          {3, Operation::kRemove},
                                                                          {3, Operation::kRead},
                                                                          {2, Operation::kCompact},
                                                                          {1, Operation::kReopen},
                                                                          {1, Operation::kCrash}})),
        gen::set(&Operation::changes, AnyChanges()), gen::set(&Operation::options),
        gen::set(&Operation::first, gen::inRange<uint64_t>(0, ebb::storage::kBlocks)),
        gen::set(&Operation::count, gen::inRange<uint64_t>(1, 80)));
  }
};

}  // namespace rc

namespace ebb::storage {
namespace {

void RunOperation(const Operation& operation, TierHarness& harness, Model& model) {
  switch (operation.kind) {
    case Operation::kStore: {
      const absl::Status status = harness.Store(operation.changes, operation.options);
      RC_LOG() << status << std::endl;
      RC_ASSERT(status.ok());
      Apply(operation.changes, model);
      return;
    }
    case Operation::kRemove:
      RC_ASSERT(harness.tier->Remove(operation.first, operation.count).ok());
      for (uint64_t i = 0; i < operation.count; ++i) model.erase(operation.first + i);
      return;
    case Operation::kRead:
      RC_ASSERT(harness.Compare(model, kBlocks, operation.count) == "");
      return;
    case Operation::kCompact:
      RC_ASSERT(harness.tier->CompactStep().ok());
      return;
    case Operation::kReopen:
      RC_ASSERT(harness.Open().ok());
      return;
    case Operation::kCrash:
      RC_ASSERT(harness.CrashAndOpen(operation.first).ok());
      return;
  }
}

// The devices hold at most about three times the blocks, so that long sequences compact.
RC_GTEST_PROP(TierProperty, MatchesAModel, (const std::vector<Operation>& operations)) {
  TierHarness harness({2560 << 10, 2560 << 10});
  RC_ASSERT(harness.Open().ok());
  Model model;
  for (const Operation& operation : operations) {
    RunOperation(operation, harness, model);
    RC_ASSERT(harness.Faults() == "");
    const CapacityUsage usage = harness.tier->Usage();
    RC_ASSERT(usage.logical_bytes == model.size() * kTestBlock);
    RC_ASSERT(usage.unique_bytes <= usage.logical_bytes);
    RC_ASSERT(usage.stored_bytes <= usage.unique_bytes);
    RC_ASSERT(usage.free_bytes == harness.tier->FreeBytes());
  }
  RC_ASSERT(harness.Compare(model, kBlocks) == "");
}

}  // namespace
}  // namespace ebb::storage
