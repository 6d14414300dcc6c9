#include "tools/pack/coco_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "tests/support/test_dir.h"
#include "tools/inspect/spec_data.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSmall[] = R"({
  "info": {"year": 2017, "nested": [1, [2, {"images": []}]]},
  "annotations": [
    {"id": 1, "image_id": 7, "category_id": 18, "bbox": [10.25, 20, 30, 40.5],
     "segmentation": [[1, 2, 3.5, 4]], "area": 1215, "iscrowd": 0},
    {"id": 2, "image_id": 9, "category_id": 1, "bbox": [0, 0, 5, 6]},
    {"id": 3, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4], "iscrowd": 1}],
  "images": [
    {"id": 9, "file_name": "b.jpg", "width": 64, "height": 48, "license": 1},
    {"id": 7, "file_name": "a\u00e9.jpg", "width": 640, "height": 480}],
  "categories": [
    {"id": 18, "name": "dog", "supercategory": "animal"}, {"id": 1, "name": "person"}]
})";

// kSmall with some of its text replaced.
absl::StatusOr<Annotations> Read(
    std::vector<std::pair<absl::string_view, absl::string_view>> replaced = {},
    const ClassList& classes = ClassList()) {
  static const TestDir& dir = *new TestDir();
  return ReadCocoJson(dir.Write("small.json", absl::StrReplaceAll(kSmall, replaced)), classes);
}

std::string Problem(std::vector<std::pair<absl::string_view, absl::string_view>> replaced) {
  const auto read = Read(std::move(replaced));
  return read.ok() ? "none" : std::string(read.status().message());
}

TEST(CocoJsonTest, BoxesLabelsAndIdsAreThoseOfTheFile) {
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->images.size(), 2u);
  const ListedImage& first = read->images[0];
  EXPECT_EQ(first.path, "b.jpg");
  EXPECT_EQ(first.id, 9);
  EXPECT_EQ(first.size, (ImageSize{48, 64}));
  ASSERT_EQ(first.boxes.size(), 1u);
  const ListedImage& second = read->images[1];
  EXPECT_EQ(second.path, "a\xc3\xa9.jpg");
  ASSERT_EQ(second.boxes.size(), 2u);
  EXPECT_EQ(second.boxes[0].corners, (Corners{10.25, 20, 40.25, 60.5}));
  EXPECT_FALSE(second.boxes[0].is_crowd);
  EXPECT_TRUE(second.boxes[1].is_crowd);
  EXPECT_THAT(read->PlaceOf(second.boxes[1]), EndsWith("small.json: annotations[2].bbox"));
  EXPECT_THAT(read->PlaceOf(second), EndsWith("small.json: images[1].file_name"));
}

TEST(CocoJsonTest, LabelsAreNumberedInTheOrderOfTheIds) {
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->classes, ElementsAre("person", "dog"));
  EXPECT_EQ(read->images[0].boxes[0].label, 0);
  EXPECT_EQ(read->images[1].boxes[0].label, 1);
  ASSERT_EQ(read->side_files.size(), 1u);
  EXPECT_EQ(read->side_files[0].name, "categories.csv");
  EXPECT_EQ(read->side_files[0].text, "label,category_id,name\n0,1,\"person\"\n1,18,\"dog\"\n");
}

TEST(CocoJsonTest, GivenClassesNumberTheLabels) {
  const auto read = Read({}, ClassList({"cat", "dog", "person"}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->classes, ElementsAre("cat", "dog", "person"));
  EXPECT_EQ(read->images[0].boxes[0].label, 2);
  EXPECT_EQ(read->images[1].boxes[0].label, 1);
  EXPECT_THAT(std::string(Read({}, ClassList({"dog"})).status().message()),
              HasSubstr("annotations[1].category_id: 1, `person`, is not among the classes"));
}

TEST(CocoJsonTest, WhatIsMissingIsNamedWithItsPath) {
  EXPECT_THAT(Problem({{"\"image_id\": 7, \"category_id\": 18, ", ""}}),
              AllOf(HasSubstr("small.json: annotations[0].image_id: is missing"),
                    HasSubstr("small.json: annotations[0].category_id: is missing")));
  EXPECT_THAT(Problem({{"\"file_name\": \"b.jpg\", ", ""}}),
              HasSubstr("images[0].file_name: is missing"));
  EXPECT_THAT(Problem({{"\"bbox\": [0, 0, 5, 6]", "\"box\": 0"}}),
              HasSubstr("annotations[1].bbox: is missing"));
  EXPECT_THAT(Problem({{"\"categories\"", "\"classes\""}}),
              HasSubstr("small.json: `categories` is missing"));
}

TEST(CocoJsonTest, WhatIsWrongIsQuotedWithItsPath) {
  EXPECT_THAT(Problem({{"[0, 0, 5, 6]", "[0, 0, -5, 6]"}}),
              HasSubstr("annotations[1].bbox: [0, 0, -5, 6] has a negative width or height"));
  EXPECT_THAT(Problem({{"[0, 0, 5, 6]", "[0, 0, 5]"}}),
              HasSubstr("annotations[1].bbox: [0, 0, 5] is not [x, y, width, height]"));
  EXPECT_THAT(Problem({{"[0, 0, 5, 6]", "[0, 0, 5, 6, 7]"}}), HasSubstr("is not [x, y"));
  EXPECT_THAT(Problem({{"[0, 0, 5, 6]", "[0, 0, 5, NaN]"}}), HasSubstr("is not [x, y"));
  EXPECT_THAT(Problem({{"\"width\": 64", "\"width\": 0"}}),
              HasSubstr("images[0].width: 0 is not a number of pixels"));
  EXPECT_THAT(Problem({{"\"image_id\": 9", "\"image_id\": 8"}}),
              HasSubstr("annotations[1].image_id: 8 is no id of `images`"));
  EXPECT_THAT(Problem({{"\"category_id\": 18", "\"category_id\": 5"}}),
              HasSubstr("annotations[0].category_id: 5 is no id of `categories`"));
  EXPECT_THAT(Problem({{"\"id\": 9", "\"id\": 7"}}),
              HasSubstr("images[1].id: 7 is that of images[0], too"));
  EXPECT_THAT(Problem({{"\"iscrowd\": 1", "\"iscrowd\": 2"}}),
              HasSubstr("annotations[2].iscrowd: 2 is neither 0 nor 1"));
  EXPECT_THAT(Problem({{"{\"id\": 18, \"name\": \"dog\", \"supercategory\": \"animal\"}", "17"}}),
              HasSubstr("categories[0]: is no object"));
}

TEST(CocoJsonTest, AllMistakesAreToldAtOnce) {
  const std::string problem =
      Problem({{"[0, 0, 5, 6]", "7"}, {"\"image_id\": 7, \"category_id\": 18", "\"x\": 1"}});
  EXPECT_THAT(problem, HasSubstr("annotations[0].image_id"));
  EXPECT_THAT(problem, HasSubstr("annotations[1].bbox"));
}

TEST(CocoJsonTest, ATextThatIsNoJsonIsToldWithLineAndColumn) {
  EXPECT_THAT(Problem({{"\"year\": 2017,", "\"year\" 2017,"}}),
              HasSubstr("small.json:2:19: is not JSON here"));
  EXPECT_THAT(Problem({{"\"year\": 2017,", "\n\n  \"year\" 2017,"}}),
              AllOf(HasSubstr("small.json:4:10: is not JSON here"), HasSubstr("`2017,")));
  const TestDir dir;
  const std::string text = kSmall;
  const auto cut = ReadCocoJson(dir.Write("cut.json", text.substr(0, 200)), ClassList());
  EXPECT_THAT(std::string(cut.status().message()),
              HasSubstr("the file ends here, inside its JSON; was it written to the end?"));
  const auto more = ReadCocoJson(dir.Write("more.json", text + "]"), ClassList());
  EXPECT_THAT(std::string(more.status().message()), HasSubstr("is not JSON here"));
}

TEST(CocoJsonTest, IsToldFromASpecByItsFields) {
  const TestDir dir;
  EXPECT_TRUE(IsCocoJson(dir.Write("a.json", kSmall)));
  EXPECT_TRUE(IsCocoJson(dir.Write("b.json", R"({"type": "instances", "images": [)")));
  EXPECT_FALSE(IsCocoJson(dir.Write("c.json", R"({"source": {"range": {"size": 3}}})")));
  EXPECT_FALSE(IsCocoJson(dir.Write("d.json", "[1, 2]")));
  EXPECT_FALSE(IsCocoJson(dir.Write("e.txt", kSmall)));
  EXPECT_FALSE(IsCocoJson((dir.path() / "nowhere.json").string()));
}

TEST(CocoJsonTest, WhatIsNotPackedIsCounted) {
  EXPECT_THAT(Read()->notes,
              ElementsAre("`segmentation` of 1 annotation left out: only boxes are packed"));
  EXPECT_THAT(Read({{"[[1, 2, 3.5, 4]]", "[ ]"}})->notes, ElementsAre());
  EXPECT_THAT(Read({{"\"segmentation\": [[1, 2, 3.5, 4]]", "\"keypoints\": [1, 2, 2]"},
                    {"[0, 0, 5, 6]", "[0, 0, 5, 6], \"keypoints\": [1, 2, 2]"}})
                  ->notes,
              ElementsAre("`keypoints` of 2 annotations left out: only boxes are packed"));
}

}  // namespace
}  // namespace bulkhead::tools
