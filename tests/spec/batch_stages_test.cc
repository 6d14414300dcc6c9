// `batch_stages` in a spec: what is refused with which advice, and what they add to a batch.
#include "server/spec/batch_stages.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/base/error.h"
#include "server/spec/fingerprint.h"
#include "server/spec/source_chain.h"
#include "server/spec/yaml/yaml.h"

namespace bulkhead::batch_stages_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Text(absl::string_view batch_stages, absl::string_view stages = "",
                 absl::string_view more = "") {
  return absl::StrCat(
      "source: {image_folder: {path: p}}\nbatch: {size: 4}\nstages:\n- decode_image\n"
      "- resize: {size: [6, 8]}\n",
      stages, "batch_stages:\n", batch_stages, more);
}
constexpr char kOneHot[] = "- one_hot: {classes: 3}\n";

absl::StatusOr<PipelineSignature> Infer(const std::string& text) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ParseSpec(text, "b.yaml"));
  return InferSignature(spec);
}

std::string Problem(const std::string& text) { return std::string(Infer(text).status().message()); }

std::vector<std::string> Outputs(const std::string& text) {
  const auto signature = Infer(text);
  EXPECT_TRUE(signature.ok()) << signature.status();
  std::vector<std::string> names;
  for (const auto& tensor : signature->schema.tensors()) names.push_back(tensor.name());
  return names;
}

TEST(BatchStageSpecTest, DefaultsAreFilledIn) {
  const auto spec =
      ParseSpec(Text("- mixup\n- cutmix: {alpha: 0.3}\n- mixup_or_cutmix\n", kOneHot), "b.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->batch_stages(0).mixup().input(), "image");
  EXPECT_EQ(spec->batch_stages(0).mixup().label(), "label");
  EXPECT_EQ(spec->batch_stages(0).mixup().alpha(), 1);
  EXPECT_EQ(spec->batch_stages(0).mixup().probability(), 1);
  EXPECT_EQ(spec->batch_stages(1).cutmix().alpha(), 0.3);
  EXPECT_EQ(spec->batch_stages(2).mixup_or_cutmix().switch_probability(), 0.5);
  EXPECT_EQ(spec->batch_stages(2).mixup_or_cutmix().cutmix_alpha(), 1);
}

TEST(BatchStageSpecTest, OptionsHaveBounds) {
  EXPECT_THAT(Problem(Text("- mixup: {alpha: 0}\n", kOneHot)),
              HasSubstr("b.yaml:8:18: batch_stages[0].mixup.alpha: is 0; it must lie between"));
  EXPECT_THAT(Problem(Text("- cutmix: {alpha: 1e9}\n", kOneHot)), HasSubstr("cutmix.alpha: is"));
  EXPECT_THAT(Problem(Text("- mixup: {probability: 2}\n", kOneHot)),
              HasSubstr("probability: must lie between 0 and 1"));
  EXPECT_THAT(Problem(Text("- mixup_or_cutmix: {switch_probability: -1}\n", kOneHot)),
              HasSubstr("switch_probability: must lie between 0 and 1"));
  EXPECT_THAT(Problem(Text("- {}\n", kOneHot)), HasSubstr("is empty: name a batch stage"));
}

TEST(BatchStageSpecTest, LabelsMustBeOneHot) {
  EXPECT_THAT(Problem(Text("- mixup\n")),
              HasSubstr("batch_stages[0].mixup.label: takes labels of float32, one number a class, "
                        "because two classes are mixed, but `label` is int64 [] in the batch; put "
                        "one_hot: {input: label, classes: …} into stages"));
}

TEST(BatchStageSpecTest, ImagesMustBeBytesOrFloats) {
  EXPECT_TRUE(Infer(Text("- mixup\n- cutmix\n", kOneHot)).ok());
  EXPECT_TRUE(Infer(Text("- cutmix\n",
                         absl::StrCat(kOneHot, "- normalize: {divide: 2}\n- layout: {to: nchw}\n")))
                  .ok());
  EXPECT_THAT(
      Problem(Text("- cutmix\n", absl::StrCat(kOneHot, "- cast: {dtype: float16}\n"))),
      HasSubstr("takes images of uint8 or float32, but `image` is float16 [6,8,3] in the batch; "
                "normalize or cast it to float32 first"));
  EXPECT_THAT(Problem(Text("- cutmix: {input: label}\n", kOneHot)), HasSubstr("name an image"));
  EXPECT_THAT(Problem(Text("- mixup: {input: label}\n", kOneHot)),
              HasSubstr("must be another output than the input"));
}

TEST(BatchStageSpecTest, WorkOnOutputsOnly) {
  EXPECT_THAT(Problem(Text("- mixup\n", kOneHot, "outputs: [image]\n")),
              HasSubstr("`label` is not among the outputs, on which batch stages work; add it"));
  EXPECT_THAT(Problem(Text("- mixup: {input: imaeg}\n", kOneHot)), HasSubstr("`image`"));
}

TEST(BatchStageSpecTest, AStageInTheWrongListIsToldWhereItBelongs) {
  EXPECT_THAT(Problem(Text("- mixup\n", "- mixup: {alpha: 0.2}\n")),
              HasSubstr("`mixup` works on whole batches: put it into batch_stages"));
  EXPECT_THAT(Problem(Text("- mixup\n", "- cutmix\n")), HasSubstr("put it into batch_stages"));
  EXPECT_THAT(Problem(Text("- resize: {size: 3}\n")),
              HasSubstr("`resize` works on samples: put it into stages"));
}

TEST(BatchStageSpecTest, AreRandomUnlessTheyNeverAct) {
  const auto spec =
      ParseSpec(Text("- mixup\n- cutmix: {probability: 0}\n"
                     "- mixup_or_cutmix: {probability: 0.1}\n"
                     "- python: {function: 'a:f', outputs: [{name: b, dtype: int8}]}\n",
                     kOneHot),
                "b.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(IsRandomBatchStage(spec->batch_stages(0)));
  EXPECT_FALSE(IsRandomBatchStage(spec->batch_stages(1)));
  EXPECT_TRUE(IsRandomBatchStage(spec->batch_stages(2)));
  EXPECT_TRUE(IsRandomBatchStage(spec->batch_stages(3)));
}

std::string Python(absl::string_view options) {
  return absl::StrCat("- python: {function: 'a:f', ", options, "}\n");
}

TEST(BatchFunctionSpecTest, AddsItsOutputsToTheBatch) {
  const std::string two = Text(absl::StrCat(
      Python("inputs: [label], outputs: [{name: b, dtype: complex64, shape: [2]}]"),
      Python("inputs: [b, image], outputs: [{name: b, dtype: complex64, shape: [2]}]")));
  EXPECT_THAT(Outputs(two), ElementsAre("b", "image", "label", "path"));
  EXPECT_EQ(Infer(two)->schema.tensors(0).sample_bytes(), 16u);
  EXPECT_THAT(Outputs(absl::StrCat(two, "outputs: [image, b, label]\n")),
              ElementsAre("image", "b", "label"));
  EXPECT_EQ(FirstPythonStage(*ParseSpec(two, "b")), "batch_stages[0].python");
}

TEST(BatchFunctionSpecTest, ReplacesOutputsInPlaceOnly) {
  EXPECT_TRUE(Infer(Text(Python("outputs: [{name: image, dtype: uint8, shape: [6, 8, 3]}]"))).ok());
  EXPECT_THAT(
      Problem(Text(Python("outputs: [{name: image, dtype: float32, shape: [6, 8, 3]}]"))),
      HasSubstr("declares `image` as float32 [6,8,3], but it is uint8 [6,8,3] in the batch, "
                "where it is replaced in place; give the result another name"));
  EXPECT_THAT(Problem(Text(Python("inputs: [b], outputs: [{name: b, dtype: int64}]"))),
              HasSubstr("batch_stages[0].python.inputs"));
  EXPECT_THAT(Problem(Text(Python("outputs: [{name: b, dtype: int64}]"), "", "outputs: [image]\n")),
              HasSubstr("`b` is not among the outputs; add it to outputs: [...]"));
}

TEST(BatchFunctionSpecTest, OutputsHaveOneShape) {
  EXPECT_THAT(Problem(Text(Python("outputs: [{name: b, dtype: bytes, max_count: 4}]"))),
              HasSubstr("cannot be bytes in batch_stages"));
  EXPECT_THAT(Problem(Text(Python("outputs: [{name: b, dtype: int8, shape: [-1], max_count: 4}]"))),
              HasSubstr("is the shape of one row"));
  EXPECT_THAT(Problem(Text("- python: {function: f, outputs: [{name: b, dtype: int8}]}\n")),
              HasSubstr("is not \"module:name\""));
}

TEST(BatchStageFingerprintTest, BytesDependOnThem) {
  const auto fingerprint = [](const std::string& text) {
    return BytesFingerprint(*ParseSpec(text, "b"));
  };
  const std::string one = fingerprint(Text("- mixup\n", kOneHot));
  EXPECT_EQ(fingerprint(Text("- mixup: {alpha: 1}\n", kOneHot)), one);
  EXPECT_NE(fingerprint(Text("- mixup: {alpha: 0.5}\n", kOneHot)), one);
  EXPECT_NE(fingerprint(Text("- mixup\n- mixup\n", kOneHot)), one);
  EXPECT_NE(fingerprint(Text("[]\n", kOneHot)), one);
}

}  // namespace
}  // namespace bulkhead::batch_stages_test
