#include "env/knob_space.h"

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::env {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

KnobSpace TestSpace() {
  return KnobSpace({
      {.name = "share", .kind = KnobKind::kPercent, .max = 90, .default_value = 30, .step = 5},
      {.name = "cache",
       .kind = KnobKind::kBytes,
       .max = int64_t{64} << 30,
       .default_value = 32 << 20,
       .step = 1 << 20,
       .log_scale = true},
      {.name = "batch",
       .kind = KnobKind::kBytes,
       .min = 256 << 10,
       .max = 64 << 20,
       .default_value = 4 << 20,
       .step = 256 << 10,
       .log_scale = true},
      {.name = "codec",
       .kind = KnobKind::kChoice,
       .max = 2,
       .default_value = 1,
       .choices = {"off", "lz4", "zstd1"}},
      // What a narrowed maximum looks like: no legal value itself.
      {.name = "odd", .min = 10, .max = 99, .default_value = 95, .step = 20},
      {.name = "fixed", .min = 7, .max = 7, .default_value = 7},
  });
}

TEST(KnobSpaceTest, FindsByName) {
  const KnobSpace space = TestSpace();

  EXPECT_EQ(space.Find("batch"), 2u);
  EXPECT_EQ(space.Find("nothing"), std::nullopt);
}

TEST(KnobSpaceTest, DefaultIsLegalEvenWhereTheHostNarrowedARange) {
  const KnobSpace space = TestSpace();

  EXPECT_THAT(space.Faults(space.Default()), IsEmpty());
  EXPECT_EQ(space.Default().values[4], 90);
}

TEST(KnobSpaceTest, NamesEveryFault) {
  const KnobSpace space = TestSpace();
  Setting setting = space.Default();
  setting.values[0] = 95;
  setting.values[2] += 1;
  setting.values[3] = 3;

  const std::vector<std::string> faults = space.Faults(setting);

  EXPECT_THAT(faults, ElementsAre(HasSubstr("share must be between 0 % and 90 %, not 95 %"),
                                  HasSubstr("batch must be 262144 plus a multiple"),
                                  HasSubstr("codec must be between off and zstd1")));
  EXPECT_THAT(space.Faults(Setting{}), ElementsAre(HasSubstr("6 values, not 0")));
}

TEST(KnobSpaceTest, ClampTakesTheNearestLegalValue) {
  const KnobSpace space = TestSpace();

  EXPECT_EQ(space.Clamp(0, 32.4), 30);
  EXPECT_EQ(space.Clamp(0, 32.6), 35);
  EXPECT_EQ(space.Clamp(0, -1e30), 0);
  EXPECT_EQ(space.Clamp(0, 1e30), 90);
  EXPECT_EQ(space.Clamp(4, 98), 90);
  EXPECT_EQ(space.Clamp(0, std::numeric_limits<double>::quiet_NaN()), 0);
}

TEST(KnobSpaceTest, LogarithmicScaleHasZeroAsItsLowestPoint) {
  const KnobSpace space = TestSpace();

  EXPECT_EQ(space.ToUnit(1, 0), 0);
  EXPECT_GT(space.ToUnit(1, 1 << 20), 0);
  EXPECT_EQ(space.ToUnit(1, int64_t{64} << 30), 1);
  // One octave is as long everywhere.
  EXPECT_NEAR(space.ToUnit(1, 4 << 20) - space.ToUnit(1, 2 << 20),
              space.ToUnit(1, int64_t{2} << 30) - space.ToUnit(1, int64_t{1} << 30), 1e-12);
  EXPECT_EQ(space.FromUnit(1, 0), 0);
  EXPECT_NEAR(space.ToUnit(2, 4 << 20), 0.5, 1e-12);
}

// Goal: the unit scale loses no value and every unit position is legal, on random spaces.
TEST(KnobSpaceTest, UnitScaleIsInvertibleMonotoneAndLegal) {
  Rng rng(20240917);
  for (int round = 0; round < 300; ++round) {
    KnobSpec spec{.name = "k"};
    spec.step = 1 + static_cast<int64_t>(rng.Below(1000));
    spec.min = rng.Chance(0.5) ? 0 : static_cast<int64_t>(rng.Below(100'000));
    spec.max = spec.min + static_cast<int64_t>(rng.Below(1'000'000));
    spec.log_scale = rng.Chance(0.5);
    const KnobSpace space({spec});
    double previous = -1;
    const int64_t steps = (spec.max - spec.min) / spec.step;
    for (int64_t n = 0; n <= steps; n += 1 + steps / 50) {
      const int64_t value = spec.min + n * spec.step;
      const double unit = space.ToUnit(0, value);
      ASSERT_EQ(space.FromUnit(0, unit), value) << "round " << round << " value " << value;
      ASSERT_GT(unit, previous) << "round " << round << " value " << value;
      ASSERT_LE(unit, 1.0);
      previous = unit;
      const Setting anywhere{{space.FromUnit(0, rng.Uniform())}};
      ASSERT_THAT(space.Faults(anywhere), IsEmpty()) << "round " << round;
    }
  }
}

TEST(KnobSpaceTest, FormatsValuesForPeople) {
  const KnobSpace space = TestSpace();

  EXPECT_EQ(space.FormatValue(0, 70), "70 %");
  EXPECT_EQ(space.FormatValue(1, 64 << 20), "64 MiB");
  EXPECT_EQ(space.FormatValue(3, 1), "lz4");
  EXPECT_EQ(space.FormatValue(3, 9), "choice 9");
}

TEST(KnobSpaceTest, DiffListsWhatMoved) {
  const KnobSpace space = TestSpace();
  Setting to = space.Default();
  to.values[0] = 40;
  to.values[3] = 2;

  const std::vector<KnobChange> changes = Diff(space, space.Default(), to);

  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].knob, "share");
  EXPECT_EQ(changes[0].from, 30);
  EXPECT_EQ(changes[0].to, 40);
  EXPECT_EQ(changes[1].knob, "codec");
}

}  // namespace
}  // namespace ebb::env
