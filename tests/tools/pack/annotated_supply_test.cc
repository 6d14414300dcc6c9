#include "tools/pack/annotated_supply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/spec/normalize/normalize.h"
#include "tensorflow/example.pb.h"
#include "tests/support/test_dir.h"
#include "tests/tools/pack/made_jpeg.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Negatives = AnnotationOptions::Negatives;

// Images a.jpg … of 100 x 60, of which the first have these boxes.
class AnnotatedSupplyTest : public ::testing::Test {
 protected:
  Annotations List(std::vector<std::vector<ListedBox>> boxes, ImageSize size = {60, 100}) {
    Annotations annotations;
    annotations.file = (dir_.path() / "instances.json").string();
    annotations.is_coco = size.width > 0;
    annotations.classes = {"cat", "dog"};
    for (size_t i = 0; i < boxes.size(); ++i) {
      const std::string path = std::string(1, static_cast<char>('a' + i)) + ".jpg";
      dir_.Write(path, MadeJpeg({60, 100}));
      annotations.images.push_back({.path = path,
                                    .place = i,
                                    .id = static_cast<int64_t>(100 + i),
                                    .size = size,
                                    .boxes = boxes[i]});
    }
    return annotations;
  }

  static absl::StatusOr<std::unique_ptr<RecordSupply>> Supply(
      Annotations annotations, const AnnotationOptions& options = {}) {
    return SupplyAnnotated(
        std::move(annotations), options, nullptr, [] { return NewLocalImageWork(); },
        [](const v1::Progress&) {});
  }

  static std::string Problem(Annotations annotations, const AnnotationOptions& options = {}) {
    const auto supply = Supply(std::move(annotations), options);
    return supply.ok() ? "none" : std::string(supply.status().message());
  }

  static tensorflow::Features Read(const RecordSupply& supply, uint64_t index) {
    tensorflow::Example example;
    const auto record = supply.NewReader()->Read(index);
    EXPECT_TRUE(record.ok()) << record.status();
    if (record.ok()) EXPECT_TRUE(example.ParseFromString(*record));
    return example.features();
  }

  static std::vector<float> Boxes(const RecordSupply& supply, uint64_t index) {
    const auto features = Read(supply, index);
    const auto& list = features.feature().at("boxes").float_list().value();
    return {list.begin(), list.end()};
  }

  static std::vector<std::string> Names(const RecordSupply& supply) {
    std::vector<std::string> names;
    for (uint64_t i = 0; i < supply.record_count(); ++i) names.push_back(supply.NameOf(i));
    return names;
  }

  const TestDir dir_;
};

ListedBox Box(Corners corners, int64_t label = 0, bool is_crowd = false) {
  return {.corners = corners, .label = label, .is_crowd = is_crowd, .place = 5};
}

TEST_F(AnnotatedSupplyTest, ARecordHoldsTheFileAndItsBoxesInPixels) {
  const auto supply = Supply(List({{Box({1.25, 2, 30, 40}, 1), Box({0, 0, 100, 60})}, {}}));
  ASSERT_TRUE(supply.ok()) << supply.status();
  ASSERT_EQ((*supply)->record_count(), 2u);
  const auto features = Read(**supply, 0);
  EXPECT_EQ(features.feature().at("image").bytes_list().value(0), ReadFile(dir_.path() / "a.jpg"));
  EXPECT_THAT(Boxes(**supply, 0), ElementsAre(1.25, 2, 30, 40, 0, 0, 100, 60));
  EXPECT_THAT(features.feature().at("labels").int64_list().value(), ElementsAre(1, 0));
  EXPECT_THAT(features.feature().at("image_id").int64_list().value(), ElementsAre(100));
  EXPECT_THAT(features.feature().at("path").bytes_list().value(), ElementsAre("a.jpg"));
  EXPECT_THAT(Boxes(**supply, 1), IsEmpty());
  EXPECT_TRUE(Read(**supply, 1).feature().at("labels").has_int64_list());
}

TEST_F(AnnotatedSupplyTest, TheSpecIsValidAndHasTheBoundAndTheClasses) {
  for (const Negatives negatives : {Negatives::kKeep, Negatives::kApart}) {
    const auto supply = Supply(List({{Box({1, 2, 30, 40}), Box({0, 0, 9, 9})}, {}}),
                               {.negatives = negatives, .keep_crowds = true});
    ASSERT_TRUE(supply.ok()) << supply.status();
    v1::PipelineSpec spec = (*supply)->Spec();
    const absl::Status valid = Normalize(spec);
    EXPECT_TRUE(valid.ok()) << valid;
    const auto& features = negatives == Negatives::kKeep
                               ? spec.features()
                               : spec.source().mixture().sources(1).features();
    EXPECT_EQ(features.at("boxes").float_().max_count(), 2u);
    EXPECT_THAT(features.at("labels").int64().classes(), ElementsAre("cat", "dog"));
    EXPECT_EQ(features.count("iscrowd"), 1u);
  }
}

TEST_F(AnnotatedSupplyTest, ImagesWithoutBoxesAreKeptLeftOutOrApart) {
  const std::vector<std::vector<ListedBox>> boxes = {{}, {Box({1, 2, 30, 40})}, {}};
  const auto kept = Supply(List(boxes));
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_THAT(Names(**kept), ElementsAre("a.jpg", "b.jpg", "c.jpg"));
  const auto dropped = Supply(List(boxes), {.negatives = Negatives::kDrop});
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_THAT(Names(**dropped), ElementsAre("b.jpg"));
  EXPECT_THAT((*dropped)->Notes(), ElementsAre("2 images without boxes left out"));
  const auto apart = Supply(List(boxes), {.negatives = Negatives::kApart});
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_THAT(Names(**apart), ElementsAre("b.jpg", "a.jpg", "c.jpg"));
  const auto sets = (*apart)->sets();
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].name, "pos");
  EXPECT_EQ(sets[0].record_count, 1u);
  EXPECT_EQ(sets[1].name, "neg");
  EXPECT_EQ(sets[1].record_count, 2u);
  const v1::PipelineSpec spec = (*apart)->Spec();
  EXPECT_EQ(spec.source().mixture().sources(1).weight(), 2);
}

TEST_F(AnnotatedSupplyTest, WithOneSetTheSpecIsNoMixture) {
  const auto supply = Supply(List({{}, {}}), {.negatives = Negatives::kApart});
  ASSERT_TRUE(supply.ok()) << supply.status();
  const v1::PipelineSpec spec = (*supply)->Spec();
  EXPECT_THAT(spec.source().tfrecord().files(), ElementsAre("neg-*.tfrecord"));
  EXPECT_THAT(Problem(List({{}, {}}), {.negatives = Negatives::kDrop}),
              HasSubstr("lists no image to pack"));
}

TEST_F(AnnotatedSupplyTest, BoxesAroundGroupsAreLeftOutOrMarked) {
  const std::vector<std::vector<ListedBox>> boxes = {
      {Box({1, 2, 3, 4}), Box({0, 0, 50, 50}, 1, true)}, {Box({0, 0, 9, 9}, 1, true)}};
  const auto dropped = Supply(List(boxes), {.negatives = Negatives::kDrop});
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_THAT(Boxes(**dropped, 0), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(Read(**dropped, 0).feature().count("iscrowd"), 0u);
  // An image of nothing but a group shows something: it is no negative.
  EXPECT_EQ((*dropped)->record_count(), 2u);
  EXPECT_THAT((*dropped)->Notes(), ElementsAre("2 boxes around groups (iscrowd) left out"));
  const auto kept = Supply(List(boxes), {.keep_crowds = true});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(Boxes(**kept, 0).size(), 8u);
  EXPECT_THAT(Read(**kept, 0).feature().at("iscrowd").int64_list().value(), ElementsAre(0, 1));
}

TEST_F(AnnotatedSupplyTest, BoxesBeyondTheListedSizeAreToldBeforeAnyImageIsRead) {
  const std::string problem =
      Problem(List({{Box({90, 2, 100.5, 40})}, {Box({5, 5, 5, 9})}, {Box({-1, 5, 8, 9})}}));
  EXPECT_THAT(problem, HasSubstr("instances.json: annotations[5].bbox: reaches beyond its image: "
                                 "90, 2 to 100.5, 40 in 100 x 60"));
  EXPECT_THAT(problem, HasSubstr("annotations[5].bbox: has no area"));
  EXPECT_THAT(problem, HasSubstr("-1, 5 to 8, 9"));
}

TEST_F(AnnotatedSupplyTest, RoundingIsNoMistake) {
  const auto supply = Supply(List({{Box({-0.005, 2, 100.01, 60.0001})}}));
  ASSERT_TRUE(supply.ok()) << supply.status();
  EXPECT_THAT(Boxes(**supply, 0), ElementsAre(0, 2, 100, 60));
  EXPECT_THAT((*supply)->Notes(), IsEmpty());
}

TEST_F(AnnotatedSupplyTest, BadBoxesAreCutWhereAskedAndCounted) {
  for (const ImageSize size : {ImageSize{60, 100}, ImageSize{}}) {
    const auto supply =
        Supply(List({{Box({90, -3, 120, 40}), Box({5, 5, 5, 9}), Box({200, 5, 220, 9})}}, size),
               {.cut_boxes = true});
    ASSERT_TRUE(supply.ok()) << supply.status();
    for (int time = 0; time < 2; ++time) {
      EXPECT_THAT(Boxes(**supply, 0), ElementsAre(90, 0, 100, 40));
    }
    EXPECT_THAT((*supply)->Notes(), ElementsAre("1 box cut at the edge of the image",
                                                "2 boxes without an area in the image left out"));
  }
}

TEST_F(AnnotatedSupplyTest, ATablesBoxesAreCheckedAgainstTheImageItself) {
  const auto supply = Supply(List({{Box({90, 2, 101, 40})}}, {}));
  ASSERT_TRUE(supply.ok()) << supply.status();
  EXPECT_THAT(std::string((*supply)->NewReader()->Read(0).status().message()),
              HasSubstr("instances.json:5: reaches beyond its image: 90, 2 to 101, 40 in 100 x 60, "
                        "a.jpg"));
}

TEST_F(AnnotatedSupplyTest, SharesBecomePixelsOfTheImage) {
  Annotations list = List({{Box({0.1, 0.5, 0.25, 1.000001})}}, {});
  list.relative = true;
  const auto supply = Supply(list);
  ASSERT_TRUE(supply.ok()) << supply.status();
  EXPECT_THAT(Boxes(**supply, 0), ElementsAre(10, 30, 25, 60));
  list.images[0].boxes[0].corners.xmax = 1.5;
  EXPECT_THAT(Problem(list), HasSubstr("reaches beyond its image: 0.1, 0.5 to 1.5, 1 in 1 x 1"));
}

TEST_F(AnnotatedSupplyTest, ImagesThatAreMissingAreToldTogether) {
  Annotations list = List({{}, {}, {}});
  list.images[0].path = "nowhere.jpg";
  list.images[2].path = "gone.jpg";
  const std::string problem = Problem(list);
  EXPECT_THAT(problem, HasSubstr("instances.json: images[0].file_name: "));
  EXPECT_THAT(problem, HasSubstr("nowhere.jpg: there is no such file; --images names"));
  EXPECT_THAT(problem, HasSubstr("images[2].file_name"));
}

TEST_F(AnnotatedSupplyTest, AnImageOfAnotherSizeThanListedIsAnError) {
  const auto supply = Supply(List({{Box({1, 2, 3, 4})}}, {61, 100}));
  ASSERT_TRUE(supply.ok()) << supply.status();
  EXPECT_THAT(std::string((*supply)->NewReader()->Read(0).status().message()),
              HasSubstr("images[0].file_name: is 100 x 61 there, but 100 x 60 in "));
}

TEST_F(AnnotatedSupplyTest, UprightMeansTheImageAsItsExifTurnsIt) {
  Annotations list = List({{Box({1, 2, 60, 100})}}, {100, 60});
  dir_.Write("a.jpg", MadeTurnedJpeg({60, 100}, 6));
  const auto stored = Supply(list);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_THAT(std::string((*stored)->NewReader()->Read(0).status().message()),
              HasSubstr("whose EXIF turns it: give --upright"));
  const auto upright = Supply(list, {.upright = true});
  ASSERT_TRUE(upright.ok()) << upright.status();
  EXPECT_THAT(Boxes(**upright, 0), ElementsAre(1, 2, 60, 100));
  EXPECT_TRUE((*upright)->Spec().stages(0).decode_image().exif_orientation());
}

TEST_F(AnnotatedSupplyTest, NamesOfClassesAreASideFile) {
  const auto supply = Supply(List({{}}));
  ASSERT_TRUE(supply.ok()) << supply.status();
  ASSERT_EQ((*supply)->side_files().size(), 1u);
  EXPECT_EQ((*supply)->side_files()[0].name, "classes.txt");
  EXPECT_EQ((*supply)->side_files()[0].text, "cat\ndog\n");
}

TEST_F(AnnotatedSupplyTest, OtherOptionsAreAnotherPacking) {
  const Annotations list = List({{Box({1, 2, 3, 4})}, {}});
  const auto identity = [&](const AnnotationOptions& options) {
    return Supply(list, options).value()->settings();
  };
  EXPECT_EQ(identity({}), identity({}));
  EXPECT_NE(identity({}), identity({.negatives = Negatives::kApart}));
  EXPECT_NE(identity({}), identity({.cut_boxes = true}));
  EXPECT_NE(identity({}), identity({.keep_crowds = true}));
  EXPECT_NE(identity({}), identity({.upright = true}));
}

TEST_F(AnnotatedSupplyTest, ARecordIsAnotherOneWithItsFileAndItsBoxes) {
  Annotations list = List({{Box({1, 2, 3, 4})}, {}});
  const auto state = [&](uint64_t index) { return Supply(list).value()->StateOf(index); };
  const std::string before = state(0);
  EXPECT_EQ(before, state(0));
  EXPECT_NE(before, state(1));
  list.images[0].boxes[0].corners.xmin += 1e-9;
  EXPECT_NE(before, state(0));
  list.images[0].boxes[0].corners.xmin = 1;
  EXPECT_EQ(before, state(0));
  list.images[0].boxes[0].label = 1;
  EXPECT_NE(before, state(0));
  list.images[0].boxes[0].label = 0;
  dir_.Write("a.jpg", MadeJpeg({60, 100}, {0, 0, 9, 9}));
  EXPECT_NE(before, state(0));
}

TEST_F(AnnotatedSupplyTest, WhoHasBadBoxesIsToldHowTheyAreCut) {
  EXPECT_THAT(Problem(List({{Box({1, 2, 101, 4})}})),
              HasSubstr("reaches beyond its image: 1, 2 to 101, 4 in 100 x 60; mend them, or give "
                        "--bad-boxes cut"));
}

}  // namespace
}  // namespace bulkhead::tools
