#include "server/spec/signature.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "server/base/element_type.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kDecode[] = "stages { decode_image {} } ";
constexpr char kCrop[] = "stages { random_resized_crop { size: [224, 200] } } ";

// "image:uint8[224,224,3]@64": every tensor of the batch with its offset.
std::vector<std::string> Tensors(const absl::StatusOr<PipelineSignature>& signature) {
  if (!signature.ok()) return {signature.status().ToString()};
  std::vector<std::string> lines;
  for (const v1::TensorSchema& tensor : signature->schema.tensors()) {
    lines.push_back(absl::StrCat(tensor.name(), ":", DTypeName(tensor.dtype()), "[",
                                 absl::StrJoin(tensor.shape(), ","), "]@", tensor.batch_offset()));
  }
  return lines;
}

std::string MessageOf(const v1::PipelineSpec& spec) {
  return std::string(InferSignature(spec).status().message());
}

TEST(InferSignatureTest, PhotosToFloatImages) {
  const auto signature = InferSignature(FolderSpec(absl::StrCat(
      kDecode, kCrop, "stages { random_horizontal_flip {} }",
      "stages { normalize { mean: [1, 2, 3] std: 2 } } stages { layout { to: IMAGE_LAYOUT_NCHW } }",
      "stages { one_hot { classes: 10 } } outputs: ['label', 'image']")));
  EXPECT_THAT(Tensors(signature),
              ElementsAre("label:float32[10]@0", "image:float32[3,224,200]@128"));
  EXPECT_EQ(signature->schema.tensors(1).sample_bytes(), 3u * 224 * 200 * 4);
  EXPECT_EQ(signature->schema.tensors(1).element_bytes(), 4u);
  EXPECT_EQ(signature->schema.batch_size(), 2u);
  EXPECT_EQ(signature->schema.batch_bytes(), 128u + 2 * 3 * 224 * 200 * 4);
  ASSERT_EQ(signature->sources[0].features_after.size(), 6u);
  EXPECT_THAT(signature->sources[0].features_after[0][0].shape, ElementsAre(-1, -1, 3));
  EXPECT_EQ(signature->sources[0].features_after[0][0].kind, FeatureSignature::Kind::kImage);
  EXPECT_TRUE(signature->sources[0].features_after[4][0].channels_first);
}

TEST(InferSignatureTest, StagesTimesFeaturesAreBounded) {
  std::string spec;
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&spec, " features { key: 'f", i, "' value { int64 {} } }");
  }
  for (uint64_t i = 0; i < kMostFeaturesOfStages / 300; ++i) {
    absl::StrAppend(&spec, " stages { cast { input: 'f0' dtype: DTYPE_INT64 } }");
  }
  const auto signature = InferSignature(RecordSpec(spec));
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_GT(signature->MemoryBytes(), kMostFeaturesOfStages * sizeof(FeatureSignature));
  absl::StrAppend(&spec, " stages { cast { input: 'f0' dtype: DTYPE_INT64 } }");
  EXPECT_THAT(MessageOf(RecordSpec(spec)), HasSubstr("at most 60000 are served"));
}

TEST(InferSignatureTest, OutputsDefaultToEveryFeatureByName) {
  EXPECT_THAT(
      Tensors(InferSignature(FolderSpec(absl::StrCat(kDecode, kCrop)))),
      ElementsAre("image:uint8[224,200,3]@0", "label:int64[]@268800", "path:bytes[]@268864"));
}

TEST(InferSignatureTest, BytesOutputsHaveTheirWidthAsElement) {
  const auto signature = InferSignature(FolderSpec("outputs: 'path'"));
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->schema.tensors(0).element_bytes(), 256u);
  EXPECT_EQ(signature->schema.tensors(0).sample_bytes(), 256u);
}

TEST(InferSignatureTest, VariableFeatureIsFollowedByItsCount) {
  const auto spec = RecordSpec(R"(
    features { key: 'boxes' value { tensor { dtype: DTYPE_FLOAT64 shape: [-1, 4] max_count: 3 } } }
    features { key: 'a' value { int64 {} } }
    stages { cast { input: 'boxes' dtype: DTYPE_FLOAT32 } })");
  EXPECT_THAT(Tensors(InferSignature(spec)),
              ElementsAre("a:int64[]@0", "boxes:float32[3,4]@64", "boxes_count:int64[]@192"));
}

TEST(InferSignatureTest, RefusesAFeatureThatTakesTheNameOfACount) {
  const auto spec = RecordSpec(R"(
    features { key: 'boxes' value { float { shape: -1 max_count: 3 } } }
    features { key: 'boxes_count' value { int64 {} } })");
  EXPECT_THAT(MessageOf(spec), HasSubstr("`boxes_count`"));
}

TEST(InferSignatureTest, EncodedOutputNeedsABound) {
  const auto spec = RecordSpec("features { key: 'image' value { bytes {} } }");
  EXPECT_EQ(ErrorPath(InferSignature(spec).status()), "features.image");
  EXPECT_THAT(MessageOf(spec),
              HasSubstr("add decode_image or give features.image.bytes.max_bytes"));
  // The bytes of an image folder cannot be given a bound.
  EXPECT_THAT(MessageOf(FolderSpec("")), Not(HasSubstr("max_bytes")));
  EXPECT_THAT(MessageOf(FolderSpec("")), HasSubstr("outputs: [...]"));
}

TEST(InferSignatureTest, ImageOfAnySizeNeedsAResize) {
  const auto spec = FolderSpec(kDecode);
  EXPECT_EQ(ErrorPath(InferSignature(spec).status()), "stages[0].decode_image");
  EXPECT_THAT(MessageOf(spec), HasSubstr("add resize, center_crop or random_resized_crop"));
  EXPECT_TRUE(InferSignature(FolderSpec(absl::StrCat(kDecode, "outputs: 'label'"))).ok());
}

TEST(InferSignatureTest, UnknownAndRepeatedOutputs) {
  const auto unknown = FolderSpec("outputs: ['path', 'lable']");
  EXPECT_EQ(ErrorPath(InferSignature(unknown).status()), "outputs[1]");
  EXPECT_THAT(MessageOf(unknown), HasSubstr("did you mean `label`?"));
  EXPECT_EQ(ErrorPath(InferSignature(FolderSpec("outputs: ['path', 'path']")).status()),
            "outputs[1]");
}

TEST(InferSignatureTest, StagesRefuseWhatTheyCannotTake) {
  const std::string decoded = absl::StrCat(kDecode, kCrop);
  const struct {
    std::string stages;
    const char* path;
    const char* advice;
  } cases[] = {
      {"stages { resize { size: 8 } }", "stages[0].resize.input", "put decode_image before it"},
      {"stages { decode_image { input: 'label' } }", "stages[0].decode_image.input",
       "name an encoded image"},
      {absl::StrCat(kDecode, kDecode), "stages[1].decode_image.input", "decoded already"},
      {absl::StrCat(kDecode, "stages { normalize {} } stages { resize { size: 8 } }"),
       "stages[2].resize.input", "put resize before normalize"},
      {absl::StrCat(decoded, "stages { layout { to: IMAGE_LAYOUT_NCHW } }",
                    "stages { random_horizontal_flip {} }"),
       "stages[3].random_horizontal_flip.input", "put random_horizontal_flip before layout"},
      {absl::StrCat(decoded, "stages { normalize { mean: [1, 2] } }"), "stages[2].normalize.mean",
       "give one number, or 3"},
      {"stages { normalize {} }", "stages[0].normalize.input", "put decode_image before it"},
      {"stages { cast { dtype: DTYPE_INT8 } }", "stages[0].cast.input", "put decode_image"},
      {absl::StrCat(decoded, "stages { cast {} }"), "stages[2].cast.dtype", "required"},
      {absl::StrCat(decoded, "stages { cast { dtype: DTYPE_BOOL } }"), "stages[2].cast.dtype",
       "must be a numeric type"},
      {"stages { layout { input: 'label' to: IMAGE_LAYOUT_NCHW } }", "stages[0].layout.input",
       "name an image"},
      {absl::StrCat(decoded, "stages { layout {} }"), "stages[2].layout.to", "NHWC or NCHW"},
      {"stages { one_hot { classes: 3 input: 'path' } }", "stages[0].one_hot.input",
       "name the label"},
      {"stages { cast { input: 'label' dtype: DTYPE_FLOAT32 } } stages { one_hot { classes: 3 } }",
       "stages[1].one_hot.input", "cast it first"},
      {"stages { one_hot {} }", "stages[0].one_hot.classes", "required"},
      {"stages { resize { input: 'imag' } }", "stages[0].resize.input", "did you mean `image`?"},
      {absl::StrCat(decoded, "stages { center_crop { size: [225, 10] } }"),
       "stages[2].center_crop.size", "224x200"},
      {"stages {}", "stages[0]", "name a stage"},
  };
  for (const auto& [stages, path, advice] : cases) {
    const auto spec = FolderSpec(stages);
    EXPECT_EQ(ErrorPath(InferSignature(spec).status()), path) << stages;
    EXPECT_THAT(MessageOf(spec), HasSubstr(advice)) << stages;
  }
}

TEST(InferSignatureTest, NormalizeKnowsTheChannelDimension) {
  const auto stages = [](absl::string_view mean) {
    return absl::StrCat(kDecode,
                        "stages { resize { size: 5 } } stages { layout { to: "
                        "IMAGE_LAYOUT_NCHW } } stages { normalize { mean: [",
                        mean, "] } } outputs: 'image'");
  };
  EXPECT_THAT(Tensors(InferSignature(FolderSpec(stages("1, 2, 3")))),
              ElementsAre("image:float32[3,5,5]@0"));
  EXPECT_FALSE(InferSignature(FolderSpec(stages("1, 2, 3, 4, 5"))).ok());
}

TEST(InferSignatureTest, LayoutThereAndBack) {
  EXPECT_THAT(Tensors(InferSignature(FolderSpec(
                  absl::StrCat(kDecode, kCrop, "stages { layout { to: IMAGE_LAYOUT_NCHW } }",
                               "stages { layout { to: IMAGE_LAYOUT_NHWC } } outputs: 'image'")))),
              ElementsAre("image:uint8[224,200,3]@0"));
}

TEST(InferSignatureTest, ChannelsFollowTheColour) {
  for (const auto& [decode, channels] :
       std::vector<std::pair<std::string, int>>{{"color: COLOR_GRAY", 1},
                                                {"color: COLOR_RGBA", 4},
                                                {"color: COLOR_BGR", 3},
                                                {"channels: 1", 1}}) {
    const auto signature =
        InferSignature(FolderSpec(absl::StrCat("stages { decode_image { ", decode, "} }", kCrop)));
    ASSERT_TRUE(signature.ok()) << signature.status();
    EXPECT_EQ(signature->schema.tensors(0).shape(2), channels) << decode;
  }
}

TEST(InferSignatureTest, AbsurdBatchesAreRefusedWithTheArithmetic) {
  auto spec = FolderSpec(absl::StrCat(kDecode, "stages { resize { size: [60000, 60000] } }"));
  spec.mutable_batch()->set_size(102);  // 3 x 60000 x 60000 x 102 is just over 2^40
  EXPECT_EQ(ErrorPath(InferSignature(spec).status()), "batch.size");
  EXPECT_THAT(MessageOf(spec), HasSubstr("1 x 60000 x 60000 x 3 bytes a sample x 102 samples"));
  spec.mutable_batch()->set_size(101);
  EXPECT_TRUE(InferSignature(spec).ok()) << MessageOf(spec);
  spec.mutable_batch()->set_size(UINT64_MAX);
  EXPECT_EQ(ErrorPath(InferSignature(spec).status()), "batch.size");
  spec.mutable_batch()->set_size(0);
  EXPECT_EQ(ErrorPath(InferSignature(spec).status()), "batch.size");
}

TEST(InferSignatureTest, ShapesThatOverflowAreRefused) {
  const auto spec = RecordSpec(
      "features { key: 'x' value { int64 { shape: [4294967296, 4294967296, 4294967296] } } }");
  EXPECT_EQ(ErrorPath(InferSignature(spec).status()), "features.x.int64.shape");
}

TEST(InferSignatureTest, SampleBytesCountDecodingStagesAndOutputs) {
  const auto signature = InferSignature(
      FolderSpec("stages { decode_image { max_pixels: 1000 } } stages { random_horizontal_flip {} }"
                 "stages { resize { size: 10 } } outputs: 'image'"));
  ASSERT_TRUE(signature.ok()) << signature.status();
  // Coefficients, decoded, flipped, resized, in the batch.
  EXPECT_EQ(signature->sample_bytes, 6000u + 3000 + 3000 + 300 + 300);
}

TEST(DTypeTest, NamesAndSizes) {
  EXPECT_EQ(DTypeName(v1::DTYPE_BFLOAT16), "bfloat16");
  EXPECT_EQ(ElementBytes(v1::DTYPE_BFLOAT16), 2u);
  EXPECT_EQ(ElementBytes(v1::DTYPE_FLOAT64), 8u);
  EXPECT_EQ(ElementBytes(v1::DTYPE_BOOL), 1u);
  EXPECT_EQ(ElementBytes(v1::DTYPE_BYTES), 0u);
}

}  // namespace
}  // namespace bulkhead
