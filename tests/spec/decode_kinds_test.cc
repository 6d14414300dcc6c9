// What decode_image's options may be, and what comes out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead::decode_kinds_test {
namespace {

using testing::HasSubstr;

v1::PipelineSpec Spec(const std::string& options, const std::string& stages = "") {
  return FolderSpec("stages { decode_image { " + options + " } } " + stages + " outputs: 'label'");
}

std::string Problem(const std::string& options, const std::string& stages = "") {
  v1::PipelineSpec spec = Spec(options, stages);
  absl::Status status = Normalize(spec);
  if (status.ok()) status = InferSignature(spec).status();
  return status.ok() ? "" : absl::StrCat(ErrorPath(status), ": ", status.message());
}

std::string Normalized(const std::string& options) {
  v1::PipelineSpec spec = Spec(options);
  EXPECT_TRUE(Normalize(spec).ok());
  return spec.stages(0).SerializeAsString();
}

TEST(DecodeKindTest, RefusesValuesWithoutAMeaning) {
  for (const char* accept : {"", "accept: 0", "accept: -1", "accept: 1.01", "accept: nan"}) {
    EXPECT_THAT(Problem(absl::StrCat("truncated { ", accept, " }")),
                HasSubstr("decode_image.truncated.accept: "));
  }
  EXPECT_EQ(Problem("truncated { accept: 1 }"), "");
  EXPECT_THAT(Problem("scale: 3"), HasSubstr("decode_image.scale: is 3"));
  EXPECT_EQ(Problem("scale: 8"), "");
}

TEST(DecodeKindTest, DefaultsHaveOneSpelling) {
  EXPECT_EQ(Normalized(""), Normalized("fancy_upsampling: true dct: DCT_METHOD_ISLOW scale: 1"));
  EXPECT_NE(Normalized(""), Normalized("fancy_upsampling: false"));
  EXPECT_NE(Normalized(""), Normalized("dct: DCT_METHOD_IFAST"));
}

TEST(DecodeKindTest, SixteenBitsGoToStagesThatTakeThem) {
  EXPECT_EQ(Problem("keep_16_bit: true", "stages { normalize { divide: 65535 } }"), "");
  EXPECT_THAT(Problem("keep_16_bit: true", "stages { resize { size: 8 } }"),
              HasSubstr("takes a uint8 image"));
}

TEST(DecodeKindTest, TurningAnImageTakesASecondOne) {
  const auto sample_bytes = [](const std::string& options) {
    v1::PipelineSpec spec = Spec(options + " max_pixels: 1000000");
    EXPECT_TRUE(Normalize(spec).ok());
    return InferSignature(spec)->sample_bytes;
  };
  EXPECT_EQ(sample_bytes("exif_orientation: true"), sample_bytes("") + 3'000'000);
}

}  // namespace
}  // namespace bulkhead::decode_kinds_test
