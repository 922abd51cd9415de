#include "engine/context/context_library.h"

#include <gtest/gtest.h>

namespace ebb::engine {
namespace {

// A stretch of steady load whose size feature is `size`.
LoadContext Stretch(double size, int64_t wall_ms = 1000, const std::string& device = "disk") {
  LoadContext stretch;
  stretch.device_class = device;
  LoadFeatures features;
  features.closed_loop = true;
  features.value = {size, 3, 12, 12, 0};
  for (int i = 0; i < 10; ++i) stretch.Add(features, wall_ms);
  return stretch;
}

BestKnown Proved(int64_t value, double mean, uint64_t change_id) {
  return {{{"alpha", value}}, {mean, mean - 0.02, mean + 0.02}, change_id, 1000, 1};
}

TEST(LoadContextTest, MiddleAndSpreadAreThoseOfItsWindows) {
  LoadContext stretch;
  for (const double size : {1.0, 3.0, 1.0, 3.0}) {
    LoadFeatures features;
    features.value[0] = size;
    stretch.Add(features, 7);
  }

  EXPECT_DOUBLE_EQ(stretch.centre.value[0], 2);
  EXPECT_NEAR(stretch.spread[0], 1, 1e-9);
  EXPECT_DOUBLE_EQ(stretch.spread[1], 0);
  EXPECT_EQ(stretch.windows, 4U);
}

TEST(LoadContextTest, SaysTheLoadInWords) {
  env::WorkloadDescriptor descriptor;
  descriptor.mean_in_flight = 32;
  descriptor.read_share = 0.6;
  descriptor.mean_read_bytes = 4096;
  descriptor.mean_write_bytes = 65536;
  LoadContext context;
  context.Add(FeaturesOf(descriptor), 1);

  EXPECT_EQ(context.Load(), "60 % reads of 4 KiB, writes of 64 KiB, 32.0 requests waiting");
}

TEST(ContextLibraryTest, NearestContextOfTheSameDevicesMatches) {
  ContextLibrary library;
  const std::string low = library.Remember(Stretch(2)).id;
  const std::string high = library.Remember(Stretch(4)).id;

  EXPECT_EQ(library.Match(Stretch(2.4))->id, low);
  EXPECT_EQ(library.Match(Stretch(3.6))->id, high);
  EXPECT_EQ(library.Match(Stretch(6)), nullptr);
  EXPECT_EQ(library.Match(Stretch(2, 1000, "nvme")), nullptr);
  LoadContext open = Stretch(2);
  open.centre.closed_loop = false;
  EXPECT_EQ(library.Match(open), nullptr);
}

TEST(ContextLibraryTest, ALoadThatVariesWidelyIsRecognisedByItsOwnMeasure) {
  ContextLibrary library;
  LoadContext bursts;
  bursts.device_class = "disk";
  for (int i = 0; i < 40; ++i) {
    LoadFeatures features;
    features.value[0] = i % 2 == 0 ? 0 : 8;
    bursts.Add(features, 1);
  }
  LoadContext shifted = bursts;
  shifted.centre.value[0] += 4;
  library.Remember(bursts);

  EXPECT_NE(library.Match(shifted), nullptr);
}

TEST(ContextLibraryTest, ForgetsTheLeastValuableFirst) {
  ContextLibrary library;
  for (int i = 0; i < 10; ++i) {
    const std::string id = library.Remember(Stretch(10.0 * i, 1000 + i)).id;
    if (i != 4) library.NoteProved(id, "balanced", {}, Proved(80, i == 6 ? 0.01 : 0.2, 7));
  }

  const std::string eleventh = library.Remember(Stretch(200, 2000)).id;
  EXPECT_EQ(eleventh, "c11");
  EXPECT_EQ(library.contexts().size(), ContextLibrary::kContextsMax);
  EXPECT_EQ(library.Find("c5"), nullptr);  // nothing was ever proved there
  library.NoteProved(eleventh, "balanced", {}, Proved(80, 0.3, 8));
  library.Remember(Stretch(300, 2001));
  EXPECT_EQ(library.Find("c7"), nullptr);  // the smallest gain
  EXPECT_NE(library.Find("c1"), nullptr);
}

TEST(ContextLibraryTest, AGainThatWasNotSeenForLongIsForgottenBeforeAFreshSmallerOne) {
  constexpr int64_t kDayMs = 24 * 3600 * 1000;
  ContextLibrary library;
  for (int i = 0; i < 10; ++i) {
    const std::string id = library.Remember(Stretch(10.0 * i, i == 3 ? 0 : 60 * kDayMs)).id;
    library.NoteProved(id, "read", {}, Proved(80, i == 3 ? 0.3 : 0.1, 7));
  }

  library.Remember(Stretch(200, 60 * kDayMs));

  EXPECT_EQ(library.Find("c4"), nullptr);
}

TEST(ContextLibraryTest, GainsOnTopOfEachOtherAreTakenTogether) {
  ContextLibrary library;
  const std::string id = library.Remember(Stretch(2)).id;
  library.NoteProved(id, "read", {{"alpha", 30}}, Proved(50, 0.10, 1));

  library.NoteProved(id, "read", {{"alpha", 50}}, Proved(80, 0.10, 2));
  const BestKnown together = library.Find(id)->best.at("read");
  library.NoteProved(id, "read", {{"alpha", 30}}, Proved(90, 0.05, 3));
  const BestKnown alone = library.Find(id)->best.at("read");

  EXPECT_NEAR(together.effect.mean, 0.21, 1e-9);
  EXPECT_LT(together.effect.low, 0.19);
  EXPECT_GT(together.effect.low, 0.17);
  EXPECT_NEAR(alone.effect.mean, 0.05, 1e-9);  // it was measured against another setting
  EXPECT_FALSE(library.Find(id)->best.contains("write"));
}

TEST(ContextLibraryTest, AProofThatIsNotedTwiceCountsOnce) {
  ContextLibrary library;
  const std::string id = library.Remember(Stretch(2)).id;

  for (int i = 0; i < 2; ++i) {
    library.NoteProved(id, "read", {{"alpha", 80}}, Proved(80, 0.10, 1));
  }

  EXPECT_NEAR(library.Find(id)->best.at("read").effect.mean, 0.10, 1e-9);
}

TEST(ContextLibraryTest, FailedRecallsLowerTheStandingUntilTheSettingIsDropped) {
  ContextLibrary library;
  const std::string id = library.Remember(Stretch(2)).id;
  library.NoteProved(id, "read", {}, Proved(80, 0.1, 1));

  library.NoteRecall(id, "read", Verdict::kRevert);
  const double once = library.Find(id)->best.at("read").standing;
  library.NoteRecall(id, "read", Verdict::kVoid);
  EXPECT_EQ(library.Find(id)->best.at("read").standing, once);
  EXPECT_LT(once, 1);
  library.NoteRecall(id, "read", Verdict::kKeep);
  EXPECT_EQ(library.Find(id)->best.at("read").standing, 1);
  library.NoteRecall(id, "read", Verdict::kRevert);
  library.NoteRecall(id, "read", Verdict::kRevert);

  EXPECT_FALSE(library.Find(id)->best.contains("read"));
}

TEST(ContextLibraryTest, SurvivesSavingAndRefusesRubbish) {
  ContextLibrary library;
  library.Remember(Stretch(2));
  library.NoteProved("c1", "read", {{"alpha", 30}}, Proved(80, 0.1, 9));

  ContextLibrary other;
  ASSERT_TRUE(other.Load(library.Save()).ok());

  EXPECT_EQ(other.Save(), library.Save());
  EXPECT_EQ(other.Remember(Stretch(50)).id, "c2");  // ids go on
  const std::string before = other.Save();
  EXPECT_FALSE(other.Load("{\"contexts\":[{}]}").ok());
  EXPECT_FALSE(other.Load("no JSON").ok());
  EXPECT_EQ(other.Save(), before);
}

}  // namespace
}  // namespace ebb::engine
