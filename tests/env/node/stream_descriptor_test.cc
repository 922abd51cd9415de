#include "env/node/stream_descriptor.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace ebb::env {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kVolume = uint64_t{1} << 30;
constexpr uint64_t kBlocks = kVolume / 4096;

// One second of a stream, as the node would sample it and as its counters would tell it.
struct Window {
  std::vector<StreamEntry> entries;
  WindowTotals totals;
};

// A node in front of clients: makes windows of requests whose service times a test chooses.
class FakeStream {
 public:
  explicit FakeStream(uint64_t seed) : rng_(seed) {}

  // `clients` of which each waits for its answer, thinks `think_ns` on average and asks again.
  Window Closed(int clients, double service_ns, double think_ns, uint64_t blocks = kBlocks) {
    if (ready_.empty()) {
      for (int i = 0; i < clients; ++i) ready_.push(now_ns_ + rng_.Below(1 + uint64_t(think_ns)));
    }
    Window window;
    while (ready_.top() < now_ns_ + kSecond) {
      const uint64_t at = ready_.top();
      ready_.pop();
      const uint64_t service = Exponential(service_ns);
      Emit(at, service, blocks, window);
      ready_.push(at + service + (think_ns > 0 ? Exponential(think_ns) : 0));
    }
    return End(window);
  }

  // Arrivals that keep their own pace.
  Window Open(double ops_per_s, double service_ns, uint64_t blocks = kBlocks) {
    Window window;
    for (uint64_t at = now_ns_ + Exponential(1e9 / ops_per_s); at < now_ns_ + kSecond;
         at += Exponential(1e9 / ops_per_s)) {
      Emit(at, Exponential(service_ns), blocks, window);
    }
    return End(window);
  }

  double read_share = 0.5;

 private:
  uint64_t Exponential(double mean) {
    return 1 + static_cast<uint64_t>(-std::log(1 - rng_.Uniform()) * mean);
  }
  void Emit(uint64_t at, uint64_t service, uint64_t blocks, Window& window) {
    StreamEntry entry{.time_ns = at,
                      .op = rng_.Chance(read_share) ? 'R' : 'W',
                      .offset = rng_.Below(blocks) * 4096,
                      .bytes = 4096,
                      .service_ns = service};
    window.entries.push_back(entry);
    (entry.op == 'R' ? window.totals.reads : window.totals.writes) += 1;
    (entry.op == 'R' ? window.totals.read_bytes : window.totals.write_bytes) += 4096;
    window.totals.mean_in_flight += static_cast<double>(service) / 1e9;
  }
  Window End(Window& window) {
    now_ns_ += kSecond;
    window.totals.seconds = 1;
    // The stream is in the order of completion.
    std::sort(window.entries.begin(), window.entries.end(),
              [](const StreamEntry& a, const StreamEntry& b) {
                return a.time_ns + a.service_ns < b.time_ns + b.service_ns;
              });
    return std::move(window);
  }

  Rng rng_;
  uint64_t now_ns_ = 1000 * kSecond;
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> ready_;
};

WorkloadDescriptor Describe(StreamDescriptor& descriptor, const Window& window,
                            double sample_rate = 1) {
  descriptor.Add(window.entries, sample_rate);
  return descriptor.Finish(window.totals);
}

// The third window's descriptor: the first ones fill the memory.
WorkloadDescriptor Third(const std::function<Window()>& next, double sample_rate = 1) {
  StreamDescriptor descriptor(kVolume);
  for (int i = 0; i < 2; ++i) Describe(descriptor, next(), sample_rate);
  return Describe(descriptor, next(), sample_rate);
}

TEST(StreamDescriptorTest, AnIdleWindowHasNoLoad) {
  StreamDescriptor descriptor(kVolume);

  const WorkloadDescriptor idle = descriptor.Finish({.seconds = 1});

  EXPECT_EQ(idle.offered_ops_per_s, 0);
  EXPECT_EQ(idle.mean_in_flight, 0);
  EXPECT_EQ(idle.working_set_bytes, 0);
}

// Goal: a store that gets faster must not look like another load. Method: the same clients before
// stores of very different speed.
TEST(StreamDescriptorTest, WaitingClientsAreCountedWhateverTheSpeed) {
  for (int clients : {1, 4, 32}) {
    for (double service_ms : {20.0, 5.0, 1.0}) {
      FakeStream stream(static_cast<uint64_t>(clients));
      const WorkloadDescriptor seen =
          Third([&] { return stream.Closed(clients, service_ms * 1e6, 0); });

      EXPECT_EQ(seen.offered_ops_per_s, 0) << clients << " clients, " << service_ms << " ms";
      EXPECT_NEAR(seen.mean_in_flight, clients, 0.12 * clients)
          << clients << " clients, " << service_ms << " ms";
      EXPECT_EQ(seen.burstiness, 0);
    }
  }
}

TEST(StreamDescriptorTest, ClientsThatAreHalfTheirTimeOutsideAreCountedToo) {
  FakeStream stream(5);

  const WorkloadDescriptor seen = Third([&] { return stream.Closed(16, 4e6, 4e6); });

  EXPECT_EQ(seen.offered_ops_per_s, 0);
  EXPECT_NEAR(seen.mean_in_flight, 16, 3);
}

// Goal: a setting that answers most requests from memory makes clients spend their time elsewhere;
// it does not make them others.
TEST(StreamDescriptorTest, WaitingClientsStayTheSameWhenTheStoreBecomesFast) {
  FakeStream stream(5);
  StreamDescriptor descriptor(kVolume);
  const auto next = [&](const Window& window) { return Describe(descriptor, window); };
  for (int i = 0; i < 5; ++i) next(stream.Closed(16, 20e6, 4e6));
  const double clients = next(stream.Closed(16, 20e6, 4e6)).mean_in_flight;
  EXPECT_NEAR(clients, 16, 4);

  for (int i = 0; i < 60; ++i) {
    const WorkloadDescriptor fast = next(stream.Closed(16, 0.5e6, 4e6));
    ASSERT_EQ(fast.offered_ops_per_s, 0) << i;
    ASSERT_NEAR(fast.mean_in_flight, clients, 4) << i;
  }
}

// Goal: the same clients answered as fast, but asking less, are another load.
TEST(StreamDescriptorTest, WaitingClientsThatBecomeRareAreARate) {
  FakeStream stream(5);
  StreamDescriptor descriptor(kVolume);
  const auto next = [&](const Window& window) { return Describe(descriptor, window); };
  for (int i = 0; i < 5; ++i) next(stream.Closed(16, 20e6, 4e6));

  next(stream.Open(400, 2e6));
  EXPECT_NEAR(next(stream.Open(400, 2e6)).offered_ops_per_s, 400, 80);
}

TEST(StreamDescriptorTest, ArrivalsAtTheirOwnPaceAreARateWhateverTheSpeed) {
  for (double ops_per_s : {200.0, 2000.0}) {
    for (double service_ms : {8.0, 1.0, 0.1}) {
      FakeStream stream(9);
      const WorkloadDescriptor seen =
          Third([&] { return stream.Open(ops_per_s, service_ms * 1e6); });

      EXPECT_EQ(seen.mean_in_flight, 0) << ops_per_s << "/s, " << service_ms << " ms";
      EXPECT_NEAR(seen.offered_ops_per_s, ops_per_s, 0.15 * ops_per_s);
      EXPECT_NEAR(seen.offered_bytes_per_s, 4096 * seen.offered_ops_per_s, 1);
    }
  }
}

// Property: the same arrivals, answered fast or slowly, are described alike.
TEST(StreamDescriptorTest, TheSameStreamIsTheSameLoadWhateverTheAnswersTook) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    FakeStream stream(seed);
    stream.read_share = 0.1 * static_cast<double>(seed % 10);
    std::vector<Window> slow;
    for (int i = 0; i < 3; ++i) {
      slow.push_back(stream.Open(300.0 + 20.0 * static_cast<double>(seed), 2e6, /*blocks=*/1000));
    }
    std::vector<Window> fast = slow;
    for (Window& window : fast) {
      for (StreamEntry& entry : window.entries) entry.service_ns /= 4;
      window.totals.mean_in_flight /= 4;
    }
    size_t next_slow = 0;
    size_t next_fast = 0;
    const WorkloadDescriptor a = Third([&] { return slow[next_slow++]; });
    const WorkloadDescriptor b = Third([&] { return fast[next_fast++]; });

    ASSERT_EQ(a.offered_ops_per_s, b.offered_ops_per_s) << "seed " << seed;
    ASSERT_EQ(a.mean_in_flight, b.mean_in_flight) << "seed " << seed;
    ASSERT_EQ(a.read_share, b.read_share) << "seed " << seed;
    ASSERT_EQ(a.mean_read_bytes, b.mean_read_bytes) << "seed " << seed;
    ASSERT_EQ(a.mean_write_bytes, b.mean_write_bytes) << "seed " << seed;
    ASSERT_NEAR(a.working_set_bytes, b.working_set_bytes, 0.1 * a.working_set_bytes) << seed;
    ASSERT_NEAR(a.sequential_share, b.sequential_share, 0.01) << "seed " << seed;
  }
}

TEST(StreamDescriptorTest, WorkingSetIsEstimatedFromRepeats) {
  for (uint64_t blocks : {uint64_t{500}, uint64_t{5'000}, uint64_t{100'000}}) {
    FakeStream stream(3);
    const WorkloadDescriptor seen = Third([&] { return stream.Open(3000, 1e5, blocks); });

    const auto bytes = static_cast<double>(blocks * 4096);
    EXPECT_NEAR(seen.working_set_bytes, bytes, 0.15 * bytes) << blocks << " blocks";
  }
}

TEST(StreamDescriptorTest, WorkingSetDoesNotFollowTheRate) {
  FakeStream slow(3);
  FakeStream fast(3);

  const double at_slow = Third([&] { return slow.Closed(8, 8e6, 0, 20'000); }).working_set_bytes;
  const double at_fast = Third([&] { return fast.Closed(8, 2e6, 0, 20'000); }).working_set_bytes;

  EXPECT_NEAR(at_slow, at_fast, 0.25 * at_fast);
}

TEST(StreamDescriptorTest, SequentialStreamsAreTold) {
  StreamDescriptor descriptor(kVolume);
  std::vector<StreamEntry> entries;
  // Two interleaved runs and as many random requests.
  Rng rng(1);
  for (uint64_t i = 0; i < 200; ++i) {
    const uint64_t at = 1000 * kSecond + i * 1'000'000;
    const uint64_t run = i % 4 == 0 ? 0 : kVolume / 2;
    const uint64_t offset = i % 2 == 0 ? run + i / 4 * 8192 : rng.Below(kBlocks) * 4096;
    entries.push_back(
        {.time_ns = at, .op = 'R', .offset = offset, .bytes = 8192, .service_ns = 1000});
  }
  descriptor.Add(entries, 1);

  const WorkloadDescriptor seen = descriptor.Finish({.seconds = 1,
                                                     .reads = 200,
                                                     .writes = 0,
                                                     .read_bytes = 200 * 8192,
                                                     .write_bytes = 0,
                                                     .mean_in_flight = 0.001});

  EXPECT_NEAR(seen.sequential_share, 0.5, 0.02);
}

// Goal: where only some regions are sampled, the first request of a region says nothing.
TEST(StreamDescriptorTest, SampledRegionsKeepTheSequentialShare) {
  StreamDescriptor descriptor(kVolume);
  std::vector<StreamEntry> entries;
  uint64_t at = 1000 * kSecond;
  for (uint64_t region = 0; region < 100; region += 8) {
    for (uint64_t i = 0; i < 4; ++i) {
      entries.push_back({.time_ns = at += 100'000,
                         .op = 'W',
                         .offset = region * StreamDescriptor::kSampledRegionBytes + i * 65536,
                         .bytes = 65536,
                         .service_ns = 1000});
    }
  }
  descriptor.Add(entries, 1.0 / 8);

  const WorkloadDescriptor seen = descriptor.Finish({.seconds = 1,
                                                     .reads = 0,
                                                     .writes = 400,
                                                     .read_bytes = 0,
                                                     .write_bytes = 400 * 65536,
                                                     .mean_in_flight = 0.1});

  EXPECT_EQ(seen.sequential_share, 1);
}

TEST(StreamDescriptorTest, BurstsShow) {
  StreamDescriptor descriptor(kVolume);
  std::vector<StreamEntry> entries;
  Rng rng(1);
  // All requests in a tenth of the time, hundreds at once: nobody waits for anybody.
  for (uint64_t i = 0; i < 1000; ++i) {
    entries.push_back({.time_ns = 1000 * kSecond + rng.Below(kSecond / 10),
                       .op = 'W',
                       .offset = rng.Below(kBlocks) * 4096,
                       .bytes = 4096,
                       .service_ns = 100'000});
  }
  descriptor.Add(entries, 1);

  const WorkloadDescriptor seen = descriptor.Finish({.seconds = 1,
                                                     .reads = 0,
                                                     .writes = 1000,
                                                     .read_bytes = 0,
                                                     .write_bytes = 4'096'000,
                                                     .mean_in_flight = 0.1});

  EXPECT_NEAR(seen.burstiness, 9, 1.5) << "a tenth of the slots have ten times the mean";
}

TEST(StreamDescriptorTest, SizesAreShares) {
  StreamDescriptor descriptor(kVolume);
  std::vector<StreamEntry> entries;
  const uint64_t sizes[] = {512, 4096, 8192, 65'536, 262'144, 262'145, 1 << 20, 16'384};
  for (uint64_t i = 0; i < 80; ++i) {
    entries.push_back({.time_ns = 1000 * kSecond + i, .op = 'W', .bytes = sizes[i % 8]});
  }
  entries.push_back({.time_ns = 1000 * kSecond, .op = 'R', .bytes = 4096});
  entries.push_back({.time_ns = 1001 * kSecond, .op = 'F'});  // lets the others count
  descriptor.Add(entries, 1);

  const WorkloadDescriptor seen = descriptor.Finish({.seconds = 1, .reads = 1, .writes = 80});

  const std::array<double, 5> writes = {0.25, 0.25, 0.125, 0.125, 0.25};
  const std::array<double, 5> reads = {1, 0, 0, 0, 0};
  EXPECT_EQ(seen.write_sizes, writes);
  EXPECT_EQ(seen.read_sizes, reads);
}

// Method: uniform draws from n blocks hit an LRU cache of c blocks with chance c / n.
TEST(StreamDescriptorTest, CurvesAreThoseOfUniformDraws) {
  for (const double sample_rate : {1.0, 0.125}) {
    StreamDescriptor descriptor(kVolume);
    Rng rng(3);
    std::vector<StreamEntry> entries;
    for (uint64_t i = 0; i < 400'000; ++i) {
      const uint64_t offset = rng.Below(32 * 256) * 4096;  // 32 MiB
      // Every eighth region, as a node samples.
      if (sample_rate < 1 && offset / StreamDescriptor::kSampledRegionBytes % 8 != 3) continue;
      entries.push_back({.time_ns = 1000 * kSecond + i * 1000,
                         .op = i % 2 == 0 ? 'R' : 'W',
                         .offset = offset,
                         .bytes = 4096,
                         .service_ns = 100});
    }
    descriptor.Add(entries, sample_rate);
    const WorkloadDescriptor seen =
        descriptor.Finish({.seconds = 1, .reads = 200'000, .writes = 200'000});

    EXPECT_NEAR(seen.miss_ratios[0], 1 - 1.0 / 32, 0.03) << sample_rate;
    EXPECT_NEAR(seen.miss_ratios[1], 1 - 4.0 / 32, 0.03) << sample_rate;
    EXPECT_NEAR(seen.miss_ratios[2], 0.5, 0.03) << sample_rate;
    EXPECT_NEAR(seen.miss_ratios[3], 0, 0.03) << sample_rate;
    EXPECT_NEAR(seen.overwrite_shares[2], 0.5, 0.03) << sample_rate;
    EXPECT_NEAR(seen.overwrite_shares[3], 1, 0.06) << sample_rate << ": all but the first writes";
  }
}

TEST(StreamDescriptorTest, CurvesForgetWhatIsLongAgo) {
  StreamDescriptor descriptor(kVolume);
  Rng rng(3);
  uint64_t at = 1000 * kSecond;
  const auto window = [&](uint64_t blocks) {
    std::vector<StreamEntry> entries;
    for (uint64_t i = 0; i < 60'000; ++i) {
      entries.push_back({.time_ns = at += 10'000,
                         .op = 'R',
                         .offset = rng.Below(blocks) * 4096 * 32,
                         .bytes = 32 * 4096});
    }
    descriptor.Add(entries, 1);
    return descriptor.Finish({.seconds = 1, .reads = 60'000}).miss_ratios[0];
  };
  EXPECT_GT(window(1'000), 0.95);

  for (int i = 0; i < 5; ++i) window(6);

  EXPECT_LT(window(6), 0.02) << "six requests of 128 KiB fit 1 MiB";
}

// Half of the writes bring content that one other write brings as well; the rest is new.
TEST(StreamDescriptorTest, DuplicatesAreEstimatedFromTheWritesThatWereLookedAt) {
  for (const double looked_at : {1.0, 0.25}) {
    StreamDescriptor descriptor(kVolume);
    Rng rng(8);
    std::vector<uint64_t> contents;
    for (uint64_t i = 1; i <= 8'000; ++i) contents.push_back(i <= 4'000 ? (i + 1) / 2 : i);
    for (size_t i = contents.size() - 1; i > 0; --i) {
      std::swap(contents[i], contents[rng.Below(i + 1)]);
    }
    std::vector<StreamEntry> entries;
    uint64_t at = 1000 * kSecond;
    for (const uint64_t content : contents) {
      StreamEntry entry{.time_ns = at += 100'000, .op = 'W', .bytes = 4096};
      entry.has_content = rng.Chance(looked_at);
      entry.fingerprint = content;
      entry.compressed_per_mille = content % 2 == 0 ? 250 : 1000;
      entries.push_back(entry);
    }
    descriptor.Add(entries, 1);

    const WorkloadDescriptor seen = descriptor.Finish({.seconds = 1, .writes = 8'000});

    EXPECT_NEAR(seen.duplicate_share, 0.25, looked_at == 1 ? 0.001 : 0.07) << looked_at;
    EXPECT_NEAR(seen.compressible_share, 0.375, 0.03) << looked_at;
  }
}

TEST(StreamDescriptorTest, MemoryIsForgottenOnReset) {
  FakeStream stream(1);
  StreamDescriptor descriptor(kVolume);
  Window window = stream.Closed(8, 1e6, 0);
  descriptor.Add(window.entries, 1);
  descriptor.Finish(window.totals);

  descriptor.Reset();

  EXPECT_EQ(descriptor.Finish({.seconds = 1, .reads = 1, .read_bytes = 4096}).working_set_bytes, 0);
}

}  // namespace
}  // namespace ebb::env
