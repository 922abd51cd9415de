#include "engine/loop/recommendation_book.h"

#include <gtest/gtest.h>

namespace ebb::engine {
namespace {

env::KnobSpace Space() {
  std::vector<env::KnobSpec> knobs(2);
  knobs[0].name = "a";
  knobs[0].max = 100;
  knobs[1].name = "b";
  knobs[1].max = 100;
  return env::KnobSpace(knobs);
}

Recommendation Advice(int64_t to, int64_t made_ms = 1000) {
  Recommendation advice;
  advice.node = "n";
  advice.goal = "read";
  advice.knobs = {{"a", 10, to, 0, 100}};
  advice.from_setting = {{"a", 10}, {"b", 0}};
  advice.id = RecommendationId("n", "read", {{"a", 10, to}});
  advice.change_id = static_cast<uint64_t>(to);
  advice.actor = "agent:x";
  advice.reason = "because";
  advice.expected = agents::Effect{0.1, 0.05, 0.15};
  advice.made_ms = made_ms;
  advice.expires_ms = made_ms + 1000;
  return advice;
}

TEST(RecommendationBookTest, TheSameAdviceHasTheSameIdAndNoOtherHasIt) {
  const std::string id = RecommendationId("n", "read", {{"a", 1, 2}});

  EXPECT_EQ(id, RecommendationId("n", "read", {{"a", 1, 2}}));
  EXPECT_EQ(id, "rae5aea4d77");  // the same after every restart and in every version
  EXPECT_NE(id, RecommendationId("m", "read", {{"a", 1, 2}}));
  EXPECT_NE(id, RecommendationId("n", "write", {{"a", 1, 2}}));
  EXPECT_NE(id, RecommendationId("n", "read", {{"a", 1, 3}}));
  EXPECT_NE(id, RecommendationId("n", "read", {{"a", 2, 2}}));
  EXPECT_NE(id, RecommendationId("n", "read", {{"a", 1, 2}, {"b", 0, 1}}));
}

TEST(RecommendationBookTest, DecisionsAreTakenOnceAndSayWhatBecameOfIt) {
  RecommendationBook book;
  book.Add(Advice(40));
  const std::string id = book.open()->id;

  EXPECT_EQ(book.Decide("r1", true, "operator:al", "", 1100).status().code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(book.Decide(id, true, "operator:al", "ok", 1100).ok());
  EXPECT_EQ(book.open()->state, RecommendationState::kApproved);
  const absl::Status twice = book.Decide(id, true, "operator:bo", "", 1200).status();
  EXPECT_NE(twice.message().find("was approved by operator:al already"), std::string::npos);
  ASSERT_TRUE(book.Decide(id, false, "operator:bo", "too risky", 1300).ok());  // before its trial

  EXPECT_FALSE(book.open().has_value());
  const absl::Status late = book.Decide(id, true, "operator:al", "", 1400).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(late.message(), "recommendation " + id +
                                " was rejected by operator:bo at 1970-01-01T00:00:01.300Z: too "
                                "risky");
}

TEST(RecommendationBookTest, NothingIsDecidedAfterItsExpiry) {
  RecommendationBook book;
  book.Add(Advice(40));

  const absl::Status late = book.Decide(book.open()->id, true, "operator:al", "", 2000).status();

  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(book.open()->state, RecommendationState::kWaiting);
}

TEST(RecommendationBookTest, ARejectedMoveAndItsNeighboursStayRejectedForAMonth) {
  RecommendationBook book;
  book.Add(Advice(40));
  ASSERT_TRUE(book.Decide(book.open()->id, false, "operator:al", "no", 1100).ok());

  const auto rejection = [&](const std::string& knob, int64_t to, int64_t now_ms) {
    return book.RejectionOf(Space(), {{knob, 10, to}}, 0.05, now_ms);
  };
  EXPECT_EQ(rejection("a", 40, 1200),
            "operator:al rejected this move at 1970-01-01T00:00:01.100Z: no");
  EXPECT_NE(rejection("a", 43, 1200), "");
  EXPECT_EQ(rejection("a", 60, 1200), "");
  EXPECT_EQ(rejection("b", 40, 1200), "");
  EXPECT_EQ(rejection("a", 40, 1100 + kRejectionMs), "");
}

TEST(RecommendationBookTest, WhoApprovedATriedOneStaysOnRecord) {
  RecommendationBook book;
  book.Add(Advice(40));
  ASSERT_TRUE(book.Decide(book.open()->id, true, "operator:al", "", 1100).ok());

  const auto tried = book.Close(RecommendationState::kTried, "", 1200);

  EXPECT_EQ(tried->decided_by, "operator:al");
  EXPECT_FALSE(book.Close(RecommendationState::kExpired, "", 1300).has_value());
}

TEST(RecommendationBookTest, SurvivesItsText) {
  RecommendationBook book;
  book.Add(Advice(40));
  book.Close(RecommendationState::kExpired, "nobody \xff decided", 2000);
  Recommendation unpredicted = Advice(60, 3000);
  unpredicted.expected.reset();
  book.Add(unpredicted);

  const auto again = RecommendationBook::Load(book.Save());

  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->Save(), book.Save());
  EXPECT_EQ(again->open()->id, unpredicted.id);
  EXPECT_EQ(again->open()->from_setting, unpredicted.from_setting);
  EXPECT_FALSE(RecommendationBook::Load("{").ok());
  EXPECT_FALSE(RecommendationBook::Load("[{}]").ok());
}

TEST(RecommendationBookTest, ForgetsTheOldestButRejectionsLast) {
  RecommendationBook book;
  book.Add(Advice(1));
  ASSERT_TRUE(book.Decide(book.open()->id, false, "operator:al", "", 1100).ok());
  for (int64_t to = 11; to < 11 + static_cast<int64_t>(kBookEntriesMax) + 5; ++to) {
    book.Add(Advice(to));
    book.Close(RecommendationState::kExpired, "", 2000);
  }

  EXPECT_EQ(book.NewestFirst().size(), kBookEntriesMax);
  EXPECT_EQ(book.NewestFirst().back().state, RecommendationState::kRejected);
  EXPECT_EQ(book.NewestFirst().front().change_id, 10 + kBookEntriesMax + 5);
}

TEST(RecommendationBookTest, TheSameAdviceAgainTakesItsOldPlace) {
  RecommendationBook book;
  book.Add(Advice(40));
  book.Close(RecommendationState::kExpired, "", 2000);

  book.Add(Advice(40, 5000));

  ASSERT_EQ(book.NewestFirst().size(), 1U);
  EXPECT_EQ(book.open()->made_ms, 5000);
}

}  // namespace
}  // namespace ebb::engine
