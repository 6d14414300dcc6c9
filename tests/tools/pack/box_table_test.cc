#include "tools/pack/box_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_dir.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

struct Given {
  bool relative = false;
  ClassList classes;
};

absl::StatusOr<Annotations> Read(const std::string& text, const Given& given = {}) {
  static const TestDir& dir = *new TestDir();
  return ReadBoxTable(dir.Write("boxes.csv", text), given.relative, given.classes);
}

std::string TableProblem(const std::string& text, const Given& given = {}) {
  const auto read = Read(text, given);
  return read.ok() ? "none" : std::string(read.status().message());
}

TEST(BoxTableTest, RowsOfAnImageNeedNotStandTogether) {
  const auto read = Read(
      "path,label,ymin,xmin,ymax,xmax\n"
      "a.jpg,dog,2,1,40,30.5\n"
      "# a comment\n"
      "b.jpg,cat,0,0,10,10\n"
      "\n"
      "\"a, b.jpg\",cat,1,1,9,9\r\n"
      "a.jpg,cat,3,3,4,4\n");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->images.size(), 3u);
  EXPECT_EQ(read->images[0].path, "a.jpg");
  EXPECT_EQ(read->images[2].path, "a, b.jpg");
  ASSERT_EQ(read->images[0].boxes.size(), 2u);
  EXPECT_EQ(read->images[0].boxes[0].corners, (Corners{1, 2, 30.5, 40}));
  EXPECT_THAT(read->PlaceOf(read->images[0].boxes[1]), EndsWith("boxes.csv:7"));
  EXPECT_THAT(read->classes, ElementsAre("cat", "dog"));
  EXPECT_EQ(read->images[0].boxes[0].label, 1);
  EXPECT_EQ(read->images[0].boxes[1].label, 0);
}

TEST(BoxTableTest, TakesWidthsAndHeights) {
  const auto read = Read("Filename;Class;X;Y;W;H\na.jpg;7;1;2;30;40\n");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->images[0].boxes[0].corners, (Corners{1, 2, 31, 42}));
  EXPECT_EQ(read->images[0].boxes[0].label, 7);
  EXPECT_TRUE(read->classes.empty());
}

TEST(BoxTableTest, ALineWithAPathAloneIsAnImageWithoutBoxes) {
  for (const char* text : {"path,label,x,y,w,h\na.jpg,,,,,\nb.jpg,3,1,1,2,2\n",
                           "path\tlabel\tx\ty\tw\th\na.jpg\t\t\t\t\t\nb.jpg\t3\t1\t1\t2\t2\n",
                           "path label x y w h\na.jpg\nb.jpg 3 1 1 2 2\n"}) {
    const auto read = Read(text);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->images.size(), 2u);
    EXPECT_EQ(read->images[0].path, "a.jpg");
    EXPECT_TRUE(read->images[0].boxes.empty());
    EXPECT_EQ(read->images[1].boxes.size(), 1u);
  }
}

TEST(BoxTableTest, ColumnsThatAreNotReadAreTold) {
  // As TensorFlow's tutorials write it: width and height are the image's.
  const auto read =
      Read("filename,width,height,class,xmin,ymin,xmax,ymax\na.jpg,640,480,cat,1,2,3,4\n");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->images[0].boxes[0].corners, (Corners{1, 2, 3, 4}));
  EXPECT_THAT(read->notes, ElementsAre("columns that are not read: width, height"));
}

TEST(BoxTableTest, WrongTitlesAreTold) {
  EXPECT_THAT(TableProblem("path,xmin,ymin,xmax,ymax\n"),
              HasSubstr("boxes.csv:1: no column is called `label`"));
  EXPECT_THAT(TableProblem("path,label,xmin,ymin,xmax\n"), HasSubstr("no column is called `ymax`"));
  EXPECT_THAT(TableProblem("path,image,label,xmin,ymin,xmax,ymax\n"),
              HasSubstr("two columns are the `path`"));
}

TEST(BoxTableTest, MistakesAreToldTogetherWithTheirLines) {
  const std::string problem = TableProblem(
      "path,label,xmin,ymin,xmax,ymax\n"
      "a.jpg,cat,1,2,3,4\n"
      "a.jpg,cat,1,2,3\n"
      ",cat,1,2,3,4\n"
      "a.jpg,cat,1,2,x,4\n"
      "a.jpg,cat,5,2,3,4\n"
      "a.jpg,,1,2,3,4\n"
      "a.jpg,cat,1,,3,4\n"
      "a.jpg,cat,,,,\n"
      "a.jpg,5,1,2,3,4\n"
      "a.jpg,cat,1,2,inf,4\n");
  for (const char* told :
       {"boxes.csv:3: has 5 columns, the first line 6", "boxes.csv:4: has an empty path",
        "boxes.csv:5: column 5 (`xmax`): `x` is no number", "boxes.csv:6: has xmax below xmin",
        "boxes.csv:7: has a box, but no label", "boxes.csv:8: column 4 (`ymin`): is empty",
        "boxes.csv:9: has a label, but no box",
        "boxes.csv:10: label `5` is a number, that of line 2 is a name",
        "boxes.csv:11: column 5 (`xmax`): `inf` is no number"}) {
    EXPECT_THAT(problem, HasSubstr(told));
  }
  EXPECT_THAT(TableProblem("path,label,x,y,w,h\na.jpg,1,5,5,-2,3\n"),
              HasSubstr("boxes.csv:2: has a negative width or height"));
}

TEST(BoxTableTest, OnlyTheFirstMistakesAreTold) {
  std::string text = "path,label,xmin,ymin,xmax,ymax\n";
  for (int i = 0; i < 30; ++i) text += "a.jpg,cat,1,2,3,y\n";
  EXPECT_THAT(TableProblem(text),
              EndsWith("boxes.csv:21: column 6 (`ymax`): `y` is no number\n… and 10 more"));
}

TEST(BoxTableTest, SharesHaveToBeCalledSo) {
  const std::string text = "path,label,xmin,ymin,xmax,ymax\na.jpg,0,0.1,0.2,0.3,1\n";
  EXPECT_THAT(TableProblem(text), HasSubstr("give --relative"));
  const auto read = Read(text, {.relative = true});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->relative);
}

TEST(BoxTableTest, GivenClassesNumberNamesAndBoundNumbers) {
  const ClassList classes({"emu", "cat"});
  const std::string head = "path,label,x,y,w,h\n";
  const auto read = Read(head + "a.jpg,cat,1,2,3,4\n", {.classes = classes});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->images[0].boxes[0].label, 1);
  EXPECT_THAT(read->classes, ElementsAre("emu", "cat"));
  EXPECT_THAT(TableProblem(head + "a.jpg,dog,1,2,3,4\n", {.classes = classes}),
              HasSubstr("boxes.csv:2: label `dog` is not among the classes"));
  EXPECT_THAT(TableProblem(head + "a.jpg,2,1,2,3,4\n", {.classes = classes}),
              HasSubstr("boxes.csv:2: label 2 is no number of a class"));
  EXPECT_THAT(TableProblem(head + "a.jpg,-1,1,2,3,4\n"), HasSubstr("label -1 is negative"));
}

TEST(BoxTableTest, IsToldFromAnImageListByItsTitles) {
  const TestDir dir;
  EXPECT_TRUE(IsBoxTable(dir.Write("a.csv", "path,label,xmin,ymin,xmax,ymax\n")));
  EXPECT_TRUE(IsBoxTable(dir.Write("b.txt", "\n# boxes\nPath\tLabel\tX\tY\tW\tH\n")));
  EXPECT_FALSE(IsBoxTable(dir.Write("c.csv", "path,label\na.jpg,1\n")));
  EXPECT_FALSE(IsBoxTable(dir.Write("d.tfrecord", "path,label,xmin,ymin,xmax,ymax\n")));
  EXPECT_FALSE(IsBoxTable(dir.path().string()));
}

TEST(ClassListTest, ReadsNamesAndTellsBadLines) {
  const TestDir dir;
  const auto read = ClassList::Read(dir.Write("good.txt", "\xef\xbb\xbf cat \r\nbig dog\n\n"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->names(), ElementsAre("cat", "big dog"));
  EXPECT_EQ(read->NumberOf("big dog"), 1);
  EXPECT_EQ(read->NumberOf("dog"), std::nullopt);
  EXPECT_EQ(read->Text(), "cat\nbig dog\n");
  const auto problem = [&](const std::string& text) {
    return std::string(ClassList::Read(dir.Write("bad.txt", text)).status().message());
  };
  EXPECT_THAT(problem("a\n\nb\n"), HasSubstr("bad.txt:2: is empty"));
  EXPECT_THAT(problem("a\nb\na\n"), HasSubstr("bad.txt:3: names `a` again, as line 1"));
  EXPECT_THAT(problem("a\n\xff\n"), HasSubstr("bad.txt:2: is not text in UTF-8"));
}

TEST(BoxTableTest, BoxesWithoutTitlesAreNoImageList) {
  const TestDir dir;
  const auto problem = [&](const std::string& text, bool means_boxes = false) {
    return std::string(RefuseUntitledBoxes(dir.Write("list.csv", text), means_boxes).message());
  };
  constexpr char kTitles[] =
      "list.csv: the first line has no titles of boxes; for boxes write such "
      "a line above: path,label,xmin,ymin,xmax,ymax";
  EXPECT_THAT(problem("a.jpg,dog,1,2,30,40\n"), HasSubstr(kTitles));
  EXPECT_THAT(problem("a.jpg,1,2,30,40,dog\n"), HasSubstr(kTitles));
  EXPECT_THAT(problem("a.jpg 3 1 2 30 40\n"), HasSubstr(kTitles));
  EXPECT_THAT(problem("a.jpg;1;2;30;40\n"), HasSubstr("with such labels write a spec"));
  EXPECT_EQ(problem("a.jpg,dog\n"), "");
  EXPECT_EQ(problem("a.jpg,1,2,3\n"), "");
  EXPECT_EQ(problem("path,a,b,c,d\na.jpg,1,2,30,40\n"), "");
  EXPECT_THAT(problem("a.jpg,dog\n", true), HasSubstr(kTitles));
}

}  // namespace
}  // namespace bulkhead::tools
