// `normalize: {at: trainer}`: what travels, what is left to the client, and where it is refused.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/spec/fingerprint.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead::trainer_normalize_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kImages[] = "stages { decode_image {} } stages { resize { size: [8, 6] } } ";
constexpr char kMean[] =
    "stages { normalize { mean: [1, 2, 3] std: 2 at: NORMALIZE_AT_TRAINER } } ";
constexpr char kPlanes[] = "stages { layout { to: IMAGE_LAYOUT_NCHW } } ";
constexpr char kHalf[] = "stages { cast { dtype: DTYPE_FLOAT16 } } ";

v1::PipelineSpec Spec(const std::string& stages) {
  v1::PipelineSpec spec = FolderSpec(stages + " outputs: 'image'");
  EXPECT_TRUE(Normalize(spec).ok()) << Normalize(spec);
  return spec;
}

v1::TensorSchema ImageOf(const std::string& stages) {
  const auto signature = InferSignature(Spec(stages));
  EXPECT_TRUE(signature.ok()) << signature.status();
  return signature.ok() ? signature->schema.tensors(0) : v1::TensorSchema();
}

std::string Problem(const std::string& stages) {
  const absl::Status status = InferSignature(Spec(stages)).status();
  return status.ok() ? "" : absl::StrCat(ErrorPath(status), ": ", std::string(status.message()));
}

TEST(TrainerNormalizeTest, TheBatchTravelsAsItWasBefore) {
  for (const std::string& behind :
       {std::string(), std::string(kPlanes), kPlanes + std::string(kHalf)}) {
    const v1::TensorSchema image = ImageOf(std::string(kImages) + kMean + behind);
    EXPECT_EQ(image.dtype(), v1::DTYPE_UINT8);
    EXPECT_THAT(image.shape(), ElementsAre(8, 6, 3));
    EXPECT_EQ(image.sample_bytes(), 8u * 6 * 3);
    EXPECT_EQ(image.packing(), v1::PACKING_NORMALIZED_BY_CLIENT);
    EXPECT_THAT(image.normalization().mean(), ElementsAre(1, 2, 3));
    EXPECT_THAT(image.normalization().std(), ElementsAre(2));
    EXPECT_EQ(image.normalization().channels_first(), !behind.empty());
    EXPECT_EQ(image.normalization().dtype(),
              behind.size() > sizeof(kPlanes) ? v1::DTYPE_FLOAT16 : v1::DTYPE_FLOAT32);
  }
  const v1::TensorSchema worker =
      ImageOf(absl::StrCat(kImages, "stages { normalize { mean: 1 } }"));
  EXPECT_EQ(worker.packing(), v1::PACKING_UNSPECIFIED);
  EXPECT_FALSE(worker.has_normalization());
}

TEST(TrainerNormalizeTest, LaterStagesOfOtherFeaturesAndStacksMayHaveIt) {
  EXPECT_EQ(Problem(absl::StrCat(kImages, kMean, kPlanes, "stages { one_hot { classes: 9 } }")),
            "");
  const v1::TensorSchema five =
      ImageOf(absl::StrCat(kImages, "stages { five_crop { size: 4 } } ", kMean, kPlanes));
  EXPECT_THAT(five.shape(), ElementsAre(5, 4, 4, 3));
  EXPECT_TRUE(five.normalization().channels_first());
}

TEST(TrainerNormalizeTest, OnlyLayoutAndNarrowFloatsMayFollow) {
  const std::string images = absl::StrCat(kImages, kMean);
  EXPECT_THAT(Problem(images + "stages { random_horizontal_flip {} }"),
              AllOf(HasSubstr("stages[3].random_horizontal_flip.input: "),
                    HasSubstr("`image` is normalized by the trainer (at: trainer, "
                              "stages[2].normalize); only layout and cast may follow")));
  EXPECT_THAT(Problem(images + "stages { normalize { divide: 2 } }"), HasSubstr("stages[3]"));
  EXPECT_THAT(Problem(images + "stages { cast { dtype: DTYPE_INT32 } }"),
              AllOf(HasSubstr("stages[3].cast.dtype: "), HasSubstr("is int32, but the trainer")));
  EXPECT_THAT(Problem(images + "stages { cast { dtype: DTYPE_FLOAT64 } }"),
              HasSubstr("is float64"));
  EXPECT_THAT(Problem(images + kHalf + "stages { cast { dtype: DTYPE_FLOAT32 } }"),
              HasSubstr("is float32"));
  EXPECT_EQ(Problem(images + kHalf + kHalf + "stages { layout { to: IMAGE_LAYOUT_NHWC } }"), "");
  EXPECT_THAT(Problem(images + "batch_stages { mixup {} }"),
              AllOf(HasSubstr("batch_stages[0].mixup: "),
                    HasSubstr("behind which no batch stage can work")));
}

TEST(TrainerNormalizeTest, OnlyBytesWithChannelsLastTravel) {
  for (const char* before : {"stages { cast { dtype: DTYPE_FLOAT32 } } ", kPlanes}) {
    EXPECT_THAT(Problem(absl::StrCat(kImages, before, kMean)),
                AllOf(HasSubstr("stages[3].normalize.input: takes uint8 of one shape, channels "
                                "last, with at: trainer"),
                      HasSubstr("write at: worker")));
  }
  EXPECT_THAT(Problem(absl::StrCat(
                  kImages, "stages { normalize { mean: [1, 2] at: NORMALIZE_AT_TRAINER } }")),
              HasSubstr("has 2 numbers"));
}

TEST(TrainerNormalizeTest, SourcesOfAMixtureMustLeaveTheSame) {
  const auto problem = [](const std::string& other) {
    const auto source = [](const std::string& stage) {
      return absl::StrCat("sources { weight: 0.5 source { image_folder { path: 'a' } } ", kImages,
                          stage, "}");
    };
    auto spec =
        FromText<v1::PipelineSpec>(absl::StrCat("source { mixture { ", source(kMean), source(other),
                                                " } } batch { size: 2 } outputs: 'image'"));
    EXPECT_TRUE(Normalize(spec).ok()) << Normalize(spec);
    return std::string(InferSignature(spec).status().message());
  };
  EXPECT_EQ(problem(kMean), "");
  EXPECT_THAT(problem("stages { normalize { mean: [1, 2, 3] std: 3 at: NORMALIZE_AT_TRAINER } }"),
              HasSubstr("must offer the same"));
  EXPECT_THAT(problem(""), HasSubstr("normalized by the trainer"));
}

TEST(TrainerNormalizeTest, BytesAreOthersAndTheOrderIsNot) {
  const auto spec = [](const char* at) {
    return Spec(absl::StrCat(kImages, "stages { normalize { mean: 1 ", at, " } }"));
  };
  const v1::PipelineSpec before = spec(""), worker = spec("at: NORMALIZE_AT_WORKER"),
                         trainer = spec("at: NORMALIZE_AT_TRAINER");
  EXPECT_EQ(worker.stages(2).normalize().at(), v1::NORMALIZE_AT_UNSPECIFIED)
      << "fingerprints of before there was a choice stay";
  EXPECT_EQ(before.SerializeAsString(), worker.SerializeAsString());
  EXPECT_EQ(BytesFingerprint(before), BytesFingerprint(worker));
  EXPECT_NE(BytesFingerprint(before), BytesFingerprint(trainer));
  EXPECT_EQ(OrderFingerprint(before, {}), OrderFingerprint(trainer, {}));
}

}  // namespace
}  // namespace bulkhead::trainer_normalize_test
