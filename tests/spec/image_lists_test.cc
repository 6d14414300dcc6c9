// Lists of encoded images: what features they are, and which steps the stages that name them
// become.
#include "server/spec/image_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"
#include "server/spec/yaml/yaml.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead::image_lists_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Three views a record, behind which come `stages`, in YAML.
std::string Views(absl::string_view stages, absl::string_view views = "{bytes: {shape: [3]}}") {
  return absl::StrCat("source: {tfrecord: {files: a.tfrecord}}\nfeatures:\n  label: int64\n",
                      "  image: ", views, "\nstages:\n", stages, "batch: {size: 2}\n");
}

std::string FrameFolder(absl::string_view stages) {
  return absl::StrCat(
      "source: {image_folder: {path: clips, unlabeled: true, frames: {window: 3}}}\nstages:\n",
      stages, "batch: {size: 2}\n");
}

v1::PipelineSpec Parsed(const std::string& text) {
  auto spec = ParseSpec(text, "s.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  if (!spec.ok()) return {};
  EXPECT_TRUE(Normalize(*spec).ok()) << Normalize(*spec);
  return *std::move(spec);
}

// What is wrong with a spec; empty when nothing is.
std::string Problem(const std::string& text) {
  auto spec = ParseSpec(text, "s.yaml");
  if (!spec.ok()) return std::string(spec.status().message());
  absl::Status status = Normalize(*spec);
  if (status.ok()) status = InferSignature(*spec).status();
  return std::string(status.message());
}

// "stages[0] image/0", of every step.
std::vector<std::string> Steps(const v1::PipelineSpec& spec) {
  std::vector<std::string> steps;
  for (const SourceChain::Step& step : SourceChains(spec)[0].steps) {
    steps.push_back(absl::StrCat(step.key_path, step.image.empty() ? "" : " ", step.image));
  }
  return steps;
}

// "image uint8 [8,8,9]", of every output.
std::vector<std::string> Outputs(const v1::PipelineSpec& spec) {
  const auto signature = InferSignature(spec);
  EXPECT_TRUE(signature.ok()) << signature.status();
  if (!signature.ok()) return {};
  std::vector<std::string> outputs;
  for (const v1::TensorSchema& tensor : signature->schema.tensors()) {
    outputs.push_back(absl::StrCat(tensor.name(), " [", absl::StrJoin(tensor.shape(), ","), "]"));
  }
  return outputs;
}

TEST(ImageListsTest, AStageIsAStepForEachImageAndDrawsTheSameNumbers) {
  const v1::PipelineSpec spec = Parsed(
      Views("  - decode_image\n  - random_resized_crop: {size: 8}\n  - one_hot: {classes: 5}\n"
            "  - random_horizontal_flip\n  - concat: {inputs: image, output: image}\n"
            "  - normalize: {divide: 2}\n"));
  EXPECT_THAT(Steps(spec),
              ElementsAre("stages[0] image/0", "stages[1] image/0", "stages[0] image/1",
                          "stages[1] image/1", "stages[0] image/2", "stages[1] image/2",
                          "stages[2]", "stages[3] image/0", "stages[3] image/1",
                          "stages[3] image/2", "stages[4]", "stages[5]"));
  EXPECT_THAT(Outputs(spec), ElementsAre("image [8,8,9]", "label [5]"));
}

TEST(ImageListsTest, ACacheIsPassedByAllImagesAtOnce) {
  const v1::PipelineSpec spec =
      Parsed(Views("  - decode_image\n  - resize: {size: 8}\n  - cache\n"
                   "  - random_horizontal_flip\n  - concat: {inputs: image, output: image}\n"));
  const SourceChain chain = SourceChains(spec)[0];
  EXPECT_EQ(chain.caches[0].steps_before, 6u);
  EXPECT_EQ(chain.steps[6].key_path, "stages[2]");
}

TEST(ImageListsTest, ImagesMayBeStackedOrDeliveredOneByOne) {
  const std::string made = "  - decode_image\n  - resize: {size: [8, 6]}\n";
  EXPECT_THAT(Outputs(Parsed(Views(made + "  - concat: {inputs: image, output: clip, stack: true}\n"
                                          "  - layout: {input: clip, to: nchw}\n"))),
              ElementsAre("clip [3,3,8,6]", "label []"));
  EXPECT_THAT(Outputs(Parsed(Views(made))),
              ElementsAre("image/0 [8,6,3]", "image/1 [8,6,3]", "image/2 [8,6,3]", "label []"));
  EXPECT_THAT(Problem(Views("  - decode_image\n  - concat: {inputs: image, output: clip, stack: "
                            "true}\n")),
              HasSubstr("concat.stack: needs images of a known size"));
  EXPECT_THAT(Problem(Views("  - decode_image: {input: image/0, color: gray}\n"
                            "  - decode_image: {input: image/1}\n"
                            "  - decode_image: {input: image/2}\n"
                            "  - resize: {size: 8}\n"
                            "  - concat: {inputs: image, output: clip, stack: true}\n")),
              HasSubstr("decode them with equally many channels"));
}

TEST(ImageListsTest, OneImageMayGoItsOwnWay) {
  const v1::PipelineSpec spec =
      Parsed(Views("  - decode_image\n  - resize: {size: 8}\n"
                   "  - random_vertical_flip: {input: image/1}\n"
                   "  - concat: {inputs: [image/2, image/0], output: pair}\n"));
  EXPECT_THAT(Outputs(spec), ElementsAre("image/1 [8,8,3]", "label []", "pair [8,8,6]"));
}

TEST(ImageListsTest, AMistakeIsToldOnce) {
  const std::string problem =
      Problem(Views("  - decode_image\n  - random_horizontal_flip: {probability: 2}\n"
                    "  - normalize: {mean: [1, 2], std: 1}\n"));
  EXPECT_EQ(problem.find("stages[1]"), problem.rfind("stages[1]")) << problem;
  const std::string sizes = Problem(Views("  - resize: {size: 8}\n"));
  EXPECT_EQ(sizes.find("stages[0]"), sizes.rfind("stages[0]")) << sizes;
}

TEST(ImageListsTest, ListsAreBoundedAndOfOneLength) {
  EXPECT_THAT(Problem(Views("  - decode_image\n", "{bytes: {shape: [65]}}")),
              HasSubstr("at most 64"));
  EXPECT_THAT(Problem(Views("  - decode_image\n", "{bytes: {shape: [99999999, 99999999]}}")),
              HasSubstr("at most 64"));
  EXPECT_THAT(Problem(Views("  - decode_image\n", "{bytes: {shape: [-1], max_count: 3}}")),
              HasSubstr("a list of encoded images has a fixed shape"));
}

TEST(ImageListsTest, FramesAreAListOfImages) {
  const v1::PipelineSpec spec =
      Parsed(FrameFolder("  - decode_image\n  - center_crop: {size: 8}\n"
                         "  - concat: {inputs: image, output: image}\n"));
  EXPECT_EQ(spec.source().image_folder().frames().stride(), 1u);
  EXPECT_THAT(Outputs(spec), ElementsAre("image [8,8,9]", "path []"));
  const std::string text = FrameFolder("  - decode_image\n");
  const auto with = [&](absl::string_view frames) {
    return Problem(absl::StrReplaceAll(text, {{"{window: 3}", frames}}));
  };
  EXPECT_THAT(with("{window: 1}"), HasSubstr("frames.window: "));
  EXPECT_THAT(with("{window: 65}"), HasSubstr("frames.window: "));
  EXPECT_THAT(with("{stride: 2}"), HasSubstr("frames.window: is required"));
  EXPECT_THAT(with("{window: 3, stride: 0}"), HasSubstr("frames.stride: "));
}

TEST(ImageListsTest, EachImageCountsOnceInASamplesMemory) {
  const auto bytes = [](absl::string_view views, absl::string_view stages) {
    return InferSignature(Parsed(Views(stages, views)))->sample_bytes;
  };
  const std::string stages =
      "  - decode_image: {max_pixels: 1000000}\n  - resize: {size: 100}\n"
      "  - random_horizontal_flip\n";
  const uint64_t one = bytes("{bytes: {}}", stages);
  const uint64_t three = bytes("{bytes: {shape: [3]}}", stages);
  // Three of all but the coefficients.
  EXPECT_LE(three, 3 * one);
  EXPECT_GT(three, 3 * uint64_t{3'000'000});
}

}  // namespace
}  // namespace bulkhead::image_lists_test
