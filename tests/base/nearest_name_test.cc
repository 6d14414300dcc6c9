#include "server/base/nearest_name.h"

#include "gtest/gtest.h"

namespace bulkhead {
namespace {

const std::vector<std::string> kStages = {"decode_image", "resize", "random_horizontal_flip",
                                          "one_hot"};

TEST(NearestNameTest, FindsSlipsOfTheHand) {
  EXPECT_EQ(NearestName("resise", kStages), "resize");
  EXPECT_EQ(NearestName("rezise", kStages), "resize");
  EXPECT_EQ(NearestName("ersize", kStages), "resize");  // neighbours swapped count once
  EXPECT_EQ(NearestName("decode_imgae", kStages), "decode_image");
  EXPECT_EQ(NearestName("RandomHorizontalFlip", kStages), "random_horizontal_flip");
  EXPECT_EQ(NearestName("one-hot", kStages), "one_hot");
}

TEST(NearestNameTest, TheBeginningOfOneNameMeansIt) {
  EXPECT_EQ(NearestName("random", kStages), "random_horizontal_flip");
  EXPECT_EQ(NearestName("--output", {"--out", "--epoch"}), "--out");
  EXPECT_EQ(NearestName("decode", {"decode_image", "decode_text"}), "");  // of two, neither
  EXPECT_EQ(NearestName("onion", {"on"}), "");                            // too short to tell
}

TEST(NearestNameTest, GuessesNothingFarAway) {
  EXPECT_EQ(NearestName("blur", kStages), "");
  EXPECT_EQ(NearestName("", kStages), "");
  EXPECT_EQ(NearestName("?!", kStages), "");
  EXPECT_EQ(NearestName(std::string(100'000, 'x'), kStages), "");
}

TEST(UnknownNameTest, ListsWhatIsValidWhenNothingIsNear) {
  EXPECT_EQ(UnknownName("stage", "resise", kStages),
            "unknown stage `resise`; did you mean `resize`?");
  EXPECT_EQ(UnknownName("stage", "blur", {"a", "b"}), "unknown stage `blur`; valid are a, b");
  EXPECT_EQ(UnknownName("field", "x", {}), "unknown field `x`; there is none here");
  EXPECT_LT(UnknownName("field", std::string(100'000, 'x'), kStages).size(), 300u);
}

}  // namespace
}  // namespace bulkhead
