// pack_rows and multi_scale in a spec: how they make a batch lie, and what is refused.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "server/base/error.h"
#include "server/spec/batch_stages.h"
#include "server/spec/fingerprint.h"
#include "server/spec/yaml/yaml.h"
#include "server/stages/packing/declare.h"

namespace bulkhead::packing_stages_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Images of 60 x 80 with boxes in pixels, relative ones, points, a mask and numbers.
std::string Text(absl::string_view batch_stages, absl::string_view stages = "",
                 absl::string_view more = "") {
  return absl::StrCat(R"(
source: {tfrecord: {files: a}}
features:
  image: {bytes: {}}
  mask: {bytes: {}}
  boxes: {float: {shape: [-1, 4], max_count: 9}}
  shares: {float: {shape: [-1, 4], max_count: 5}}
  points: {float: {shape: [3, 2]}}
  names: {int64: {shape: [-1], max_count: 2}}
  label: int64
batch: {size: 4}
stages:
- decode_image
- decode_image: {input: mask, color: gray}
- boxes: {format: xyxy}
- boxes: {input: shares, format: cxcywh, relative: true}
- keypoints: {input: points}
- mask: {input: mask}
- resize: {size: [60, 80]}
)",
                      stages, "batch_stages:\n", batch_stages, more);
}

absl::StatusOr<PipelineSignature> Infer(const std::string& text) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ParseSpec(text, "p.yaml"));
  return InferSignature(spec);
}

std::string Problem(const std::string& text) { return std::string(Infer(text).status().message()); }

// "boxes[9,4]rows" of each tensor of the batch.
std::vector<std::string> Outputs(const std::string& text) {
  const auto signature = Infer(text);
  EXPECT_TRUE(signature.ok()) << signature.status();
  std::vector<std::string> outputs;
  if (!signature.ok()) return outputs;
  for (const auto& tensor : signature->schema.tensors()) {
    const absl::string_view packing[] = {"", "rows", "extents", "extents_first"};
    outputs.push_back(absl::StrCat(tensor.name(), "[", absl::StrJoin(tensor.shape(), ","), "]",
                                   packing[tensor.packing()]));
  }
  return outputs;
}

TEST(PackRowsSpecTest, PacksEveryOutputThatVaries) {
  EXPECT_THAT(Outputs(Text("- pack_rows\n")),
              ElementsAre("boxes[9,4]rows", "boxes_count[]", "image[60,80,3]", "label[]",
                          "mask[60,80,1]", "names[2]rows", "names_count[]", "points[3,2]",
                          "shares[5,4]rows", "shares_count[]"));
  EXPECT_THAT(Outputs(Text("- pack_rows\n", "", "outputs: [label, boxes]\n")),
              ElementsAre("label[]", "boxes[9,4]rows", "boxes_count[]"));
}

TEST(PackRowsSpecTest, PacksWhatIsNamedAndThenTheRest) {
  const std::string outputs = "outputs: [boxes, names, shares]\n";
  EXPECT_THAT(Outputs(Text("- pack_rows: {inputs: [names, boxes]}\n", "", outputs)),
              ElementsAre("boxes[9,4]rows", "boxes_count[]", "names[2]rows", "names_count[]",
                          "shares[5,4]", "shares_count[]"));
  const std::string both = Text("- pack_rows: {inputs: [names]}\n- pack_rows\n", "", outputs);
  EXPECT_THAT(Outputs(both), ElementsAre("boxes[9,4]rows", "boxes_count[]", "names[2]rows",
                                         "names_count[]", "shares[5,4]rows", "shares_count[]"));
  const auto spec = ParseSpec(both, "p.yaml");
  ASSERT_TRUE(spec.ok());
  const auto signature = InferSignature(*spec);
  const auto& features = signature->sources[0].FeaturesBefore(7);
  EXPECT_THAT(RowsPackedAt(*spec, 0, features), ElementsAre("names"));
  EXPECT_THAT(RowsPackedAt(*spec, 1, features), ElementsAre("boxes", "shares"));
  EXPECT_FALSE(IsRandomBatchStage(spec->batch_stages(0)));
}

TEST(PackRowsSpecTest, RefusesWhatHasNoRowsOfItsOwn) {
  EXPECT_THAT(Problem(Text("- pack_rows: {inputs: [points]}\n")),
              HasSubstr("p.yaml:21:23: batch_stages[0].pack_rows.inputs: `points` is float32 [3,2] "
                        "in every sample: only outputs whose number of rows varies"));
  EXPECT_THAT(Problem(Text("- pack_rows: {inputs: [boxes_count]}\n")),
              HasSubstr("`boxes_count` is int64 [] in every sample"));
  EXPECT_THAT(Problem(Text("- pack_rows: {inputs: [boxs]}\n")), HasSubstr("did you mean `boxes`"));
  EXPECT_THAT(Problem(Text("- pack_rows: {inputs: [boxes]}\n", "", "outputs: [label]\n")),
              HasSubstr("`boxes` is not among the outputs, on which batch stages work"));
  EXPECT_THAT(Problem(Text("- pack_rows\n", "", "outputs: [label]\n")),
              HasSubstr("batch_stages[0].pack_rows: finds no output whose number of rows varies"));
  EXPECT_THAT(Problem(Text("- pack_rows\n- pack_rows\n")),
              HasSubstr("batch_stages[1].pack_rows: finds no output"));
  EXPECT_THAT(Problem(Text("- pack_rows: {inputs: [boxes, boxes]}\n")),
              HasSubstr("batch_stages[0].pack_rows.inputs[1]: `boxes` is listed twice"));
}

TEST(PackRowsSpecTest, NothingBehindItTouchesPackedRows) {
  const std::string message =
      "`boxes` was packed by batch_stages[0].pack_rows, behind which its samples have no fixed "
      "place; put this stage before that one";
  EXPECT_THAT(Problem(Text("- pack_rows\n- pack_rows: {inputs: [boxes]}\n")),
              HasSubstr(absl::StrCat("batch_stages[1].pack_rows.inputs: ", message)));
  const auto python = [](absl::string_view options) {
    return Text(absl::StrCat("- pack_rows\n- python: {function: 'a:f', ", options, "}\n"));
  };
  EXPECT_THAT(Problem(python("inputs: [boxes], outputs: [{name: b, dtype: int8}]")),
              HasSubstr(absl::StrCat("batch_stages[1].python.inputs: ", message)));
  EXPECT_THAT(
      Problem(python("inputs: [label], outputs: [{name: boxes, dtype: float32, shape: [9, 4]}]")),
      HasSubstr(absl::StrCat("batch_stages[1].python.outputs[0]: ", message)));
  EXPECT_THAT(Problem(python("inputs: [label], outputs: [{name: boxes_count, dtype: int64}]")),
              HasSubstr("brings the output `boxes_count`, which another feature is called"));
  EXPECT_TRUE(
      Infer(python("inputs: [label, boxes_count], outputs: [{name: b, dtype: int8}]")).ok());
  EXPECT_THAT(Problem(Text("- pack_rows\n- mixup: {input: shares}\n")), HasSubstr("was packed by"));
}

TEST(PackRowsSpecTest, OffsetsHaveANameOfTheirOwn) {
  const std::string taken =
      "- python: {function: 'a:f', inputs: [label], outputs: [{name: boxes_offsets, dtype: "
      "int8}]}\n";
  EXPECT_THAT(Problem(Text("- pack_rows\n", taken)),
              HasSubstr("batch_stages[0].pack_rows: `boxes` is packed and brings the output "
                        "`boxes_offsets`, which another feature is called; rename one"));
  EXPECT_THAT(Problem(Text(absl::StrCat(taken, "- pack_rows\n"))), HasSubstr("rename one"));
  EXPECT_TRUE(Infer(Text("- pack_rows: {inputs: [names]}\n", taken)).ok());
  EXPECT_THAT(Problem(Text("- pack_rows\n", "", "outputs: [boxes, boxes_offsets]\n")),
              HasSubstr("`boxes_offsets` comes with `boxes` by itself; leave it out of the list"));
}

TEST(PackRowsSpecTest, CountsOfFeaturesThatAreNoOutputsAreNotMistaken) {
  const std::string taken =
      "- python: {function: 'a:f', inputs: [label], outputs: [{name: boxes_count, dtype: "
      "int64}]}\n";
  EXPECT_THAT(Problem(Text("[]\n", taken, "outputs: [boxes]\n")),
              HasSubstr("brings the output `boxes_count`, which another feature is called"));
}

constexpr char kMultiScale[] = "- multi_scale: {sizes: [80, 40]}\n";

TEST(MultiScaleSpecTest, PacksTheImageAndItsMasks) {
  EXPECT_THAT(Outputs(Text(kMultiScale)),
              ElementsAre("boxes[9,4]", "boxes_count[]", "image[60,80,3]extents", "image_size[2]",
                          "label[]", "mask[60,80,1]extents", "mask_size[2]", "names[2]",
                          "names_count[]", "points[3,2]", "shares[5,4]", "shares_count[]"));
  EXPECT_THAT(
      Outputs(Text(kMultiScale, "- normalize: {divide: 255}\n- layout: {to: nchw}\n",
                   "outputs: [image, boxes]\n")),
      ElementsAre("image[3,60,80]extents_first", "image_size[2]", "boxes[9,4]", "boxes_count[]"));
}

TEST(MultiScaleSpecTest, KnowsWhatGoesAlong) {
  const auto spec = ParseSpec(Text(kMultiScale), "p.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto signature = InferSignature(*spec);
  std::vector<std::string> names;
  for (const FeatureSignature* along :
       ScaledAlong(spec->batch_stages(0).multi_scale(), signature->sources[0].FeaturesBefore(7))) {
    names.push_back(along->name);
  }
  EXPECT_THAT(names, ElementsAre("boxes", "mask", "points"));
  EXPECT_TRUE(IsRandomBatchStage(spec->batch_stages(0)));
  const auto one = ParseSpec(Text("- multi_scale: {sizes: [40]}\n"), "p.yaml");
  EXPECT_FALSE(IsRandomBatchStage(one->batch_stages(0)));
}

TEST(MultiScaleSpecTest, RefusesSizesThatHaveNoRoom) {
  EXPECT_THAT(Problem(Text("- multi_scale: {sizes: [40, 81]}\n")),
              HasSubstr("batch_stages[0].multi_scale.sizes[1]: is 81, but the longer side of "
                        "`image` has 80 pixels"));
  EXPECT_THAT(Problem(Text("- multi_scale\n")), HasSubstr("multi_scale.sizes: is required"));
  EXPECT_THAT(Problem(Text("- multi_scale: {sizes: [0]}\n")),
              HasSubstr("sizes[0]: must lie between 1 and"));
}

TEST(MultiScaleSpecTest, TakesImagesOfBytesOrFloats) {
  EXPECT_THAT(Problem(Text("- multi_scale: {input: label, sizes: [4]}\n")),
              HasSubstr("takes images of uint8 or float32, but `label` is int64 [] in the batch"));
  EXPECT_THAT(
      Problem(Text("- multi_scale: {input: mask, sizes: [40]}\n")),
      HasSubstr("batch_stages[0].multi_scale.input: `mask` is a mask of `image`, with which "
                "it is scaled: name that image"));
  EXPECT_THAT(Problem(Text(kMultiScale, "- cast: {dtype: float16}\n")),
              HasSubstr("`image` is float16 [60,80,3] in the batch; name an image"));
  EXPECT_THAT(Problem(Text(kMultiScale, "", "outputs: [boxes]\n")),
              HasSubstr("`image` is not among the outputs"));
}

TEST(MultiScaleSpecTest, RefusesWhatCannotGoAlong) {
  const std::string lost =
      "- python: {function: 'a:f', inputs: [boxes], outputs: [{name: boxes, "
      "dtype: float32, shape: [-1, 4], max_count: 9}]}\n";
  EXPECT_THAT(Problem(Text(kMultiScale, lost)),
              HasSubstr("batch_stages[0].multi_scale: scales `image`, but `boxes` and its image "
                        "`image` were separated by stages[7].python"));
  EXPECT_TRUE(Infer(Text(kMultiScale, lost, "outputs: [image, shares]\n")).ok());
  EXPECT_THAT(Problem(Text(absl::StrCat("- pack_rows\n", kMultiScale))),
              HasSubstr("batch_stages[1].multi_scale: `boxes` was packed by "
                        "batch_stages[0].pack_rows"));
  EXPECT_TRUE(Infer(Text(absl::StrCat("- pack_rows: {inputs: [shares]}\n", kMultiScale))).ok());
  EXPECT_TRUE(Infer(Text(absl::StrCat(kMultiScale, "- pack_rows\n"))).ok());
  EXPECT_THAT(Problem(Text(kMultiScale, "- cast: {input: mask, dtype: int64}\n")),
              HasSubstr("`mask` and its image `image` were separated by stages[7].cast"));
}

TEST(MultiScaleSpecTest, NothingBehindItTouchesTheImage) {
  EXPECT_THAT(Problem(Text(absl::StrCat(kMultiScale, "- mixup\n"))),
              HasSubstr("batch_stages[1].mixup.input: `image` was packed by "
                        "batch_stages[0].multi_scale"));
  EXPECT_THAT(Problem(Text(absl::StrCat(kMultiScale, kMultiScale))),
              HasSubstr("batch_stages[1].multi_scale.input: `image` was packed by"));
  const auto python = [](absl::string_view options) {
    return Text(absl::StrCat(kMultiScale, "- python: {function: 'a:f', ", options, "}\n"));
  };
  EXPECT_THAT(Problem(python("inputs: [mask], outputs: [{name: b, dtype: int8}]")),
              HasSubstr("`mask` was packed by"));
  EXPECT_TRUE(Infer(python("inputs: [image_size], outputs: [{name: b, dtype: int8}]")).ok());
  EXPECT_THAT(
      Problem(python("inputs: [label], outputs: [{name: image_size, dtype: int64, shape: [2]}]")),
      HasSubstr("`image_size`"));
  EXPECT_THAT(Problem(Text(absl::StrCat("- python: {function: 'a:f', inputs: [image_size], "
                                        "outputs: [{name: b, dtype: int8}]}\n",
                                        kMultiScale))),
              HasSubstr("image_size"))
      << "it is not there yet";
}

TEST(MultiScaleSpecTest, TheSizeHasANameOfItsOwn) {
  const std::string taken =
      "- python: {function: 'a:f', inputs: [label], outputs: [{name: image_size, dtype: int8}]}\n";
  EXPECT_THAT(Problem(Text(kMultiScale, taken)),
              HasSubstr("batch_stages[0].multi_scale: `image` has another size in each batch and "
                        "brings the output `image_size`, which another feature is called"));
}

TEST(PackingFingerprintTest, BytesDependOnIt) {
  const auto fingerprint = [](const std::string& stages) {
    return BytesFingerprint(*ParseSpec(Text(stages), "p"));
  };
  const std::string plain = fingerprint("[]\n");
  EXPECT_NE(fingerprint("- pack_rows\n"), plain);
  EXPECT_NE(fingerprint("- pack_rows: {inputs: [boxes]}\n"), fingerprint("- pack_rows\n"));
  EXPECT_NE(fingerprint(kMultiScale), fingerprint("- multi_scale: {sizes: [40, 80]}\n"));
}

}  // namespace
}  // namespace bulkhead::packing_stages_test
