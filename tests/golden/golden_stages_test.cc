// Stages that move whole pixels against torchvision's transforms and OpenCV's functions
// (make_golden_stages.py), byte for byte; and antialiased resizes against torchvision's, within a
// rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/golden/golden_pipeline.h"

namespace bulkhead::golden_stages_test {
namespace {

class GoldenStagesTest : public GoldenPipelineTest {
 protected:
  GoldenStagesTest() : GoldenPipelineTest("stages.golden") {}
};

// "[8, 14]" of the last two of "wide 8 14".
std::string SizeOf(const std::string& name) {
  const std::vector<std::string> words = absl::StrSplit(name, ' ');
  return absl::StrCat("[", words[words.size() - 2], ", ", words.back(), "]");
}

std::string FirstWord(const std::string& name) { return name.substr(0, name.find(' ')); }

// The range of this one number.
std::string Only(const std::string& number) { return "[" + number + ", " + number + "]"; }

TEST_F(GoldenStagesTest, FlipsAreExact) {
  for (const auto& [prefix, stage] :
       {std::pair{"across ", "random_horizontal_flip"}, {"down ", "random_vertical_flip"}}) {
    const std::vector<std::string> pictures = NamesOf(prefix);
    EXPECT_EQ(pictures.size(), 4u);
    for (const std::string& picture : pictures) {
      const GoldenArray& golden = Get(prefix + picture);
      ExpectMade(picture, In(absl::StrCat(stage, " { probability: 1 }")) + Whole(golden), golden);
    }
  }
}

TEST_F(GoldenStagesTest, CenterAndFiveCropsAreExact) {
  for (const std::string stage : {"center", "five"}) {
    const std::vector<std::string> names = NamesOf(stage + " ");
    EXPECT_EQ(names.size(), 8u);
    for (const std::string& name : names) {
      ExpectMade(FirstWord(name), In(absl::StrCat(stage, "_crop { size: ", SizeOf(name), " }")),
                 Get(stage + " " + name));
    }
  }
}

// Where 3, 7, 11 … rows or columns are left over, torchvision leaves the odd one above, or left.
TEST_F(GoldenStagesTest, CenterCropsLeaveAnOddRestBelowWhereTorchvisionRoundsToEven) {
  const GoldenArray& picture = Get("even");  // 24 × 38 × 4
  const auto cut = [&](int top, int left) {
    GoldenArray crop;
    for (int y = top; y < top + 21; ++y)
      crop.bytes += picture.bytes.substr((y * 38 + left) * 4, 31 * 4);
    return crop;
  };
  EXPECT_TRUE(Get("uneven").bytes == cut(2, 4).bytes);
  ExpectMade("even", In("center_crop { size: [21, 31] }"), cut(1, 3));
}

TEST_F(GoldenStagesTest, PadsAreExact) {
  for (const auto& [sides_name, sides] :
       {std::pair{"even sides", "4"}, {"each side", "[1, 2, 0, 5]"}}) {
    for (const auto& [fill_name, fill] : {std::pair{"black", "0"}, {"colour", "[10, 200, 90]"}}) {
      const GoldenArray& golden = Get(absl::StrCat("pad ", sides_name, " ", fill_name));
      const std::string whole =
          absl::StrCat("center_crop { size: [", golden.shape[0], ", ", golden.shape[1], "] }");
      ExpectMade("wide",
                 In(absl::StrCat("pad { padding: ", sides, " fill: ", fill, " }")) + Whole(golden),
                 golden);
    }
  }
}

TEST_F(GoldenStagesTest, LetterboxesAreOpenCvsResizeAndBorder) {
  const std::vector<std::string> sizes = NamesOf("letterbox ");
  EXPECT_EQ(sizes.size(), 7u);
  for (const std::string& size : sizes) {
    ExpectMade("wide", In(absl::StrCat("letterbox { size: ", SizeOf("to " + size), " }")),
               Get("letterbox " + size));
  }
}

TEST_F(GoldenStagesTest, RandomCropsAreExact) {
  ExpectOutcomes("small", In("random_crop { size: [6, 8] }"), "crops plain");
  ExpectOutcomes("small", In("random_crop { size: [9, 12] padding: [2, 0, 1, 3] fill: 77 }"),
                 "crops padded");
}

TEST_F(GoldenStagesTest, RandomResizedCropsAreOpenCvsResizesOfTorchvisionsRectangles) {
  const std::vector<std::string> names = NamesOf("resized ");
  EXPECT_EQ(names.size(), 5u);
  for (const std::string& name : names) {
    const std::vector<std::string> words = absl::StrSplit(name, ' ');
    ExpectOutcomes("cropped",
                   In(absl::StrCat("random_resized_crop { size: [8, 7] scale: ", Only(words[0]),
                                   " ratio: ", Only(words[1]), " }")),
                   "resized " + name);
  }
}

TEST_F(GoldenStagesTest, RandomErasingsAreExact) {
  const std::vector<std::string> names = NamesOf("erasings ");
  EXPECT_EQ(names.size(), 3u);
  for (const std::string& name : names) {
    const std::vector<std::string> words = absl::StrSplit(name, ' ');
    ExpectOutcomes("erased",
                   In("center_crop { size: [9, 12] }") +
                       In(absl::StrCat("random_erasing { probability: 1 fill: 201 scale: ",
                                       Only(words[0]), " ratio: ", Only(words[1]), " }")),
                   "erasings " + name);
  }
}

// How many of all values differ, by how much.
struct Difference {
  int most = 0;
  double share = 0;
  double beyond_one = 0;
};

Difference DifferenceOf(const std::string& made, const std::string& golden) {
  EXPECT_EQ(made.size(), golden.size());
  Difference difference;
  for (size_t i = 0; i < std::min(made.size(), golden.size()); ++i) {
    const int by = std::abs(static_cast<uint8_t>(made[i]) - static_cast<uint8_t>(golden[i]));
    difference.most = std::max(difference.most, by);
    difference.share += by > 0;
    difference.beyond_one += by > 1;
  }
  difference.share /= static_cast<double>(made.size());
  difference.beyond_one /= static_cast<double>(made.size());
  return difference;
}

// torchvision computes in float32 and rounds once; Pillow (and we) round and cut to bytes behind
// each of the two passes, where a cubic may have left their range.
TEST_F(GoldenStagesTest, AntialiasedResizesAreTorchvisionsWithinARounding) {
  for (const std::string filter : {"linear", "cubic"}) {
    std::string made;
    std::string golden;
    for (const std::string& name : NamesOf("antialias ")) {
      if (!absl::StrContains(name, filter)) continue;
      PipelineUnderTest pipeline = PipelineOf(
          "large " + FirstWord(name),
          In(absl::StrCat("resize { size: ", SizeOf(name), " antialias: true interpolation: ",
                          "INTERPOLATION_", absl::AsciiStrToUpper(filter), " }")));
      const Produced produced = pipeline.Produce(0, {3, 1, 0});
      ASSERT_TRUE(produced.status.ok()) << produced.status;
      made += pipeline.Output(produced, "image");
      golden += Get("antialias " + name).bytes;
    }
    ASSERT_GT(made.size(), 40'000u);
    const Difference difference = DifferenceOf(made, golden);
    EXPECT_LE(difference.share, 0.17) << filter;
    if (filter == "linear") {
      EXPECT_EQ(difference.most, 1);
    } else {
      EXPECT_LE(difference.most, 5);
      EXPECT_LE(difference.beyond_one, 0.001);
    }
  }
}

}  // namespace
}  // namespace bulkhead::golden_stages_test
