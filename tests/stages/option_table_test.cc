// What a declared option fills in, refuses and says; that every stage has its declaration.
#include "server/stages/declaration/option_table.h"

#include <gmock/gmock.h>

#include <cmath>

#include "bulkhead/v1/stages.pb.h"
#include "server/base/error.h"
#include "server/stages/declaration/batch_kind.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What one declared option makes of `stage`: the first problem, "PATH: SENTENCE", or nothing.
template <typename Message>
std::string Normalized(const Option& option, Message& stage) {
  const OptionTable table(Message::descriptor(), {option});
  SpecProblems problems;
  table.Normalize(stage, "s", problems);
  if (problems.empty()) return "";
  return problems.all()[0].path + ": " + problems.all()[0].message;
}

void Give(const std::vector<double>& numbers, google::protobuf::RepeatedField<double>& list) {
  list.Clear();
  for (const double number : numbers) list.Add(number);
}

TEST(OptionTableTest, FillsInWhereTheSpecIsSilent) {
  v1::Solarize solarize;
  EXPECT_EQ(Normalized(Option("threshold").Default(128), solarize), "");
  EXPECT_EQ(solarize.threshold(), 128u);
  solarize.set_threshold(0);
  EXPECT_EQ(Normalized(Option("threshold").Default(128), solarize), "");
  EXPECT_EQ(solarize.threshold(), 0u);
  EXPECT_EQ(Normalized(Option("input").DefaultName("image"), solarize), "");
  EXPECT_EQ(solarize.input(), "image");
  v1::RandomErasing erasing;
  EXPECT_EQ(Normalized(Option("scale").Default({0.02, 0.33}), erasing), "");
  EXPECT_THAT(erasing.scale(), ElementsAre(0.02, 0.33));
  v1::Resize resize;
  EXPECT_EQ(Normalized(Option("interpolation").Default(v1::INTERPOLATION_AREA), resize), "");
  EXPECT_EQ(resize.interpolation(), v1::INTERPOLATION_AREA);
}

TEST(OptionTableTest, LeavesAnImpliedDefaultOut) {
  v1::DecodeImage decode;
  EXPECT_EQ(Normalized(Option("fancy_upsampling").ImpliedDefault(true), decode), "");
  EXPECT_FALSE(decode.has_fancy_upsampling());
  decode.set_fancy_upsampling(true);
  EXPECT_EQ(Normalized(Option("fancy_upsampling").ImpliedDefault(true), decode), "");
  EXPECT_FALSE(decode.has_fancy_upsampling());
  decode.set_fancy_upsampling(false);
  EXPECT_EQ(Normalized(Option("fancy_upsampling").ImpliedDefault(true), decode), "");
  EXPECT_TRUE(decode.has_fancy_upsampling());
}

TEST(OptionTableTest, SaysWhatIsMissing) {
  v1::Posterize stage;
  const Option bits = Option("bits").Required("how many to keep");
  EXPECT_EQ(Normalized(bits, stage), "s.bits: is required: how many to keep");
  const OptionTable table(v1::Posterize::descriptor(), {bits});
  EXPECT_THAT(std::string(table.CheckRequired(stage, "s").message()), HasSubstr("is required"));
  stage.set_bits(3);
  EXPECT_TRUE(table.CheckRequired(stage, "s").ok());
}

TEST(OptionTableTest, RefusesWhatLiesBeyondLimits) {
  v1::RandomPerspective stage;
  const Option distortion = Option("distortion").Between(0, 1);
  for (const double bad : {-0.001, 1.001, std::nan("")}) {
    stage.set_distortion(bad);
    EXPECT_EQ(Normalized(distortion, stage), "s.distortion: must lie between 0 and 1") << bad;
  }
  for (const double good : {0.0, 1.0}) {
    stage.set_distortion(good);
    EXPECT_EQ(Normalized(distortion, stage), "") << good;
    EXPECT_EQ(Normalized(Option("distortion").Above(0, 0.5), stage),
              "s.distortion: must be a number above 0 and at most 0.5");
  }
  // Whole numbers are written out, however large.
  v1::OneHot one_hot;
  one_hot.set_classes(4'000'000'000);
  EXPECT_EQ(
      Normalized(Option("classes").Between(0, 1u << 30, "is $0, over the limit of $2"), one_hot),
      "s.classes: is 4000000000, over the limit of 1073741824");
}

TEST(OptionTableTest, ChecksEveryNumberOfAList) {
  v1::RandomErasing stage;
  for (const uint32_t value : {1, 2, 300}) stage.add_fill(value);
  EXPECT_EQ(Normalized(Option("fill").Between(0, 255, "holds $0, not $1 to $2"), stage),
            "s.fill: holds 300, not 0 to 255");
  EXPECT_EQ(Normalized(Option("fill").Count(1, 2, "has $0, not $1 or $2"), stage),
            "s.fill: has 3, not 1 or 2");
}

TEST(OptionTableTest, TakesNumbersBelowZero) {
  v1::StageOutput output;
  EXPECT_EQ(Normalized(Option("shape").Default({-1, 4}), output), "");
  EXPECT_THAT(output.shape(), ElementsAre(-1, 4));
  EXPECT_EQ(Normalized(Option("shape").Between(0, 9, "holds $0"), output), "s.shape: holds -1");
}

TEST(OptionTableTest, OneNumberStandsForSeveral) {
  v1::CenterCrop stage;
  const Option size = Option("size").OneStandsFor(2).Count(2, 2, "has $0");
  stage.add_size(7);
  EXPECT_EQ(Normalized(size, stage), "");
  EXPECT_THAT(stage.size(), ElementsAre(7, 7));
  stage.add_size(7);
  EXPECT_EQ(Normalized(size, stage), "s.size: has 3");
}

TEST(OptionTableTest, ARangeGoesUp) {
  v1::RandomErasing stage;
  const std::string sentence = "s.scale: must be two numbers [low, high] with 0 < low <= high <= 1";
  for (const std::vector<double>& bad :
       {std::vector<double>{0.5}, {0.5, 0.4}, {0, 0.5}, {0.5, 1.5}, {0.1, 0.2, 0.3}}) {
    Give(bad, *stage.mutable_scale());
    EXPECT_EQ(Normalized(Option("scale").RangeAbove(0, 1), stage), sentence);
  }
  Give({0.5, 0.5}, *stage.mutable_scale());
  EXPECT_EQ(Normalized(Option("scale").RangeAbove(0, 1), stage), "");
  Give({0, 1}, *stage.mutable_scale());
  EXPECT_EQ(Normalized(Option("scale").Range(0, 1), stage), "");
}

TEST(OptionTableTest, RefusesValuesOfAnEnumThatItLacksOrThatDoNotFit) {
  v1::RandomAffine stage;
  stage.set_interpolation(static_cast<v1::Interpolation>(99));
  const Option option =
      Option("interpolation").NoneOf({v1::INTERPOLATION_AREA}, "cannot be area here");
  EXPECT_EQ(Normalized(option, stage), "s.interpolation: has the unknown value 99");
  stage.set_interpolation(v1::INTERPOLATION_AREA);
  EXPECT_EQ(Normalized(option, stage), "s.interpolation: cannot be area here");
  stage.set_interpolation(v1::INTERPOLATION_CUBIC);
  EXPECT_EQ(Normalized(option, stage), "");
}

TEST(OptionTableDeathTest, AnOptionIsAFieldOfTheMessage) {
  EXPECT_DEATH(OptionTable(v1::Posterize::descriptor(), {Option("bit")}),
               "Posterize has no option bit");
}

// A stage that is in the .proto file only would be found by its first user.
TEST(StageKindTest, EveryStageIsDeclared) {
  for (int i = 0; i < v1::Stage::descriptor()->field_count(); ++i) {
    const auto* field = v1::Stage::descriptor()->field(i);
    v1::Stage stage;
    stage.GetReflection()->MutableMessage(&stage, field);
    ASSERT_NE(KindOf(stage), nullptr) << field->name();
    EXPECT_EQ(KindOf(stage)->options().message(), field->message_type()) << field->name();
  }
  for (int i = 0; i < v1::BatchStage::descriptor()->field_count(); ++i) {
    const auto* field = v1::BatchStage::descriptor()->field(i);
    v1::BatchStage stage;
    stage.GetReflection()->MutableMessage(&stage, field);
    ASSERT_NE(BatchKindOf(stage), nullptr) << field->name();
    EXPECT_EQ(BatchKindOf(stage)->options().message(), field->message_type()) << field->name();
  }
}

}  // namespace
}  // namespace bulkhead
