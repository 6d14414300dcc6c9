#include "tools/pack/altered_supply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/spec/yaml/yaml.h"
#include "tensorflow/example.pb.h"
#include "tests/tools/pack/fake_supply.h"
#include "tests/tools/pack/made_jpeg.h"
#include "tools/synth/example.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSpec[] =
    "source: {tfrecord: {files: x}}\n"
    "features: {image: {bytes: {}}, boxes: {float: {shape: [-1, 4], max_count: 9}}, label: int64}\n"
    "stages: [decode_image, {boxes: {format: xyxy}}]\nbatch: {size: 1}\noutputs: [boxes, label]\n";

std::unique_ptr<FakeSupply> Photos(const std::string& file) {
  auto supply = std::make_unique<FakeSupply>(1, [file](uint64_t) {
    ExampleBuilder example;
    example.Bytes("image", file).Int64("label", 3);
    auto& boxes = example.Floats("boxes");
    for (const float corner : {10.f, 20.f, 30.f, 41.f}) boxes.Add(corner);
    return example.Serialize();
  });
  supply->spec = ParseSpec(kSpec, "x.yaml").value();
  supply->spec.clear_source();
  return supply;
}

absl::StatusOr<std::unique_ptr<RecordSupply>> Altered(const std::string& file,
                                                      const Alteration& alteration) {
  return AlterSupply(Photos(file), alteration, [] { return NewLocalImageWork(); });
}

tensorflow::Features Read(const RecordSupply& supply) {
  tensorflow::Example example;
  EXPECT_TRUE(example.ParseFromString(supply.NewReader()->Read(0).value()));
  return example.features();
}

TEST(AlteredSupplyTest, BoxesFollowTheirImage) {
  const auto supply =
      Altered(MadeJpeg({60, 100}), {.recoding = {.side = Recoding::Side::kLonger, .pixels = 50}});
  ASSERT_TRUE(supply.ok()) << supply.status();
  const tensorflow::Features features = Read(**supply);
  EXPECT_THAT(features.feature().at("boxes").float_list().value(), ElementsAre(5, 10, 15, 20.5));
  EXPECT_EQ(NewLocalImageWork()->Look(features.feature().at("image").bytes_list().value(0))->size,
            (ImageSize{30, 50}));
  EXPECT_EQ(features.feature().at("label").int64_list().value(0), 3);
}

TEST(AlteredSupplyTest, AnImageThatIsSmallEnoughKeepsBytesAndBoxes) {
  const std::string file = MadeJpeg({60, 100});
  const auto supply = Altered(file, {.recoding = {.side = Recoding::Side::kLonger, .pixels = 100}});
  ASSERT_TRUE(supply.ok()) << supply.status();
  const tensorflow::Features features = Read(**supply);
  EXPECT_EQ(features.feature().at("image").bytes_list().value(0), file);
  EXPECT_THAT(features.feature().at("boxes").float_list().value(), ElementsAre(10, 20, 30, 41));
}

TEST(AlteredSupplyTest, FeaturesGetTheirKeysInRecordsAndSpec) {
  // Two that swap their names, and one that has a new one.
  const auto supply = Altered(
      MadeJpeg({6, 10}), {.keys = {{"image", "img_raw"}, {"boxes", "label"}, {"label", "boxes"}}});
  ASSERT_TRUE(supply.ok()) << supply.status();
  const tensorflow::Features features = Read(**supply);
  EXPECT_EQ(features.feature().size(), 3u);
  EXPECT_EQ(features.feature().at("img_raw").bytes_list().value_size(), 1);
  EXPECT_EQ(features.feature().at("label").float_list().value_size(), 4);
  EXPECT_EQ(features.feature().at("boxes").int64_list().value(0), 3);
  const v1::PipelineSpec spec = (*supply)->Spec();
  EXPECT_EQ(spec.features().at("image").key(), "img_raw");
  EXPECT_EQ(spec.features().at("boxes").key(), "label");
}

TEST(AlteredSupplyTest, AKeyOfNoFeatureAndAKeyOfTwoAreRefused) {
  EXPECT_THAT(
      std::string(Altered("", {.keys = {{"img", "x"}}}).status().message()),
      HasSubstr("--key img=x: the records have no feature `img`, only boxes, image, label"));
  EXPECT_THAT(std::string(Altered("", {.keys = {{"image", "label"}}}).status().message()),
              HasSubstr("the key `label` is given to two features"));
}

// Records as `record` makes them, whose spec declares `features`.
std::unique_ptr<FakeSupply> Records(const std::string& features, FakeSupply::ReadFn record) {
  auto supply = std::make_unique<FakeSupply>(1, std::move(record));
  supply->spec =
      ParseSpec(
          absl::StrCat("source: {tfrecord: {files: x}}\nfeatures: {", features,
                       "}\nstages: [decode_image, {resize: {size: 8}}]\nbatch: {size: 1}\noutputs: "
                       "[image]\n"),
          "x.yaml")
          .value();
  supply->spec.clear_source();
  return supply;
}

std::string ReadProblem(std::unique_ptr<RecordSupply> records, const Alteration& alteration) {
  const auto supply =
      AlterSupply(std::move(records), alteration, [] { return NewLocalImageWork(); });
  if (!supply.ok()) return absl::StrCat("at once: ", supply.status().message());
  return std::string((*supply)->NewReader()->Read(0).status().message());
}

TEST(AlteredSupplyTest, ARecordWithWhatNobodyDeclaredIsNotMadeSmaller) {
  const Alteration smaller = {.recoding = {.side = Recoding::Side::kLonger, .pixels = 50}};
  const auto more = [](uint64_t) {
    ExampleBuilder example;
    example.Bytes("image", MadeJpeg({60, 100})).Bytes("mask", "pixels");
    return example.Serialize();
  };
  EXPECT_THAT(ReadProblem(Records("image: {bytes: {}}", more), smaller),
              HasSubstr("record 0: holds `mask`, which is neither image nor label and would not "
                        "follow a smaller image: write a spec that declares all"));
  EXPECT_EQ(ReadProblem(Records("image: {bytes: {}}, mask: {bytes: {}}", more), smaller), "");
  const auto steps = [](uint64_t) {
    tensorflow::SequenceExample example;
    (*example.mutable_context()->mutable_feature())["image"].mutable_bytes_list()->add_value(
        MadeJpeg({60, 100}));
    (*example.mutable_feature_lists()->mutable_feature_list())["boxes"].add_feature();
    return example.SerializeAsString();
  };
  EXPECT_THAT(ReadProblem(Records("image: {bytes: {}}", steps), smaller),
              HasSubstr("record 0: holds `boxes`, which is"));
}

TEST(AlteredSupplyTest, WhatIsNoExampleIsNamedAndIsNobodysBug) {
  const auto supply =
      AlterSupply(Records("image: {bytes: {}}", [](uint64_t) { return "\xff\xff"; }),
                  {.keys = {{"image", "x"}}}, [] { return NewLocalImageWork(); });
  ASSERT_TRUE(supply.ok()) << supply.status();
  const absl::Status status = (*supply)->NewReader()->Read(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("record 0: the record is no tf.Example"));
}

TEST(AlteredSupplyTest, KeysAreThoseOfTheRecords) {
  const auto stored = [](uint64_t) {
    ExampleBuilder example;
    example.Bytes("jpg", "x").Int64("cls", 3).Int64("id", 7);
    return example.Serialize();
  };
  const std::string features = "image: {key: jpg, bytes: {}}, label: {key: cls, int64: {}}";
  EXPECT_EQ(ReadProblem(Records(features, stored), {.keys = {{"image", "label"}}}), "");
  EXPECT_THAT(ReadProblem(Records(features, stored), {.keys = {{"image", "cls"}}}),
              HasSubstr("at once: the key `cls` is given to two features"));
  EXPECT_THAT(ReadProblem(Records(features, stored), {.keys = {{"image", "id"}}}),
              HasSubstr("record 0: holds a feature `id` besides the one that gets this key"));
  EXPECT_THAT(
      ReadProblem(Records("image: {key: jpg, bytes: {}}, other: int64", stored),
                  {.keys = {{"other", "x"}}}),
      HasSubstr("record 0: has no feature `other`, which --key other=x gives another name"));
}

TEST(AlteredSupplyTest, ADamagedImageIsNamed) {
  const auto supply = Altered("no image", {.recoding = {.quality = 90}});
  ASSERT_TRUE(supply.ok()) << supply.status();
  EXPECT_THAT(std::string((*supply)->NewReader()->Read(0).status().message()),
              HasSubstr("record 0: "));
}

TEST(AlteredSupplyTest, EachAlterationIsAnotherPacking) {
  const auto identity = [](const Alteration& alteration) {
    return Altered("", alteration).value()->settings();
  };
  const auto one = identity({.recoding = {.quality = 90}});
  EXPECT_EQ(one, identity({.recoding = {.quality = 90}}));
  EXPECT_NE(one, identity({.recoding = {.quality = 91}}));
  EXPECT_NE(one, identity({.keys = {{"image", "x"}}, .recoding = {.quality = 90}}));
  EXPECT_NE(one, identity({.recoding = {.side = Recoding::Side::kLonger, .pixels = 90}}));
  EXPECT_NE(identity({.recoding = {.side = Recoding::Side::kShorter, .pixels = 90}}),
            identity({.recoding = {.side = Recoding::Side::kLonger, .pixels = 90}}));
}

}  // namespace
}  // namespace bulkhead::tools
