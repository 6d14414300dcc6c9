#include "server/base/error.h"

#include <gtest/gtest.h>

namespace bulkhead {
namespace {

TEST(ErrorTest, CarriesReasonAndMetadata) {
  const absl::Status status = MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                                        "no such file", {{"file", "a.txt"}, {"offset", "7"}});
  const auto info = GetErrorInfo(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, "FILE_NOT_FOUND");
  EXPECT_EQ(info->metadata.at("file"), "a.txt");
  EXPECT_EQ(info->metadata.at("offset"), "7");
  EXPECT_FALSE(IsSampleError(status));
}

TEST(ErrorTest, AnnotationAddsPlaceAndKeepsWhatIsKnown) {
  const absl::Status status =
      Annotate(SampleError(reason::kCorruptImage, "bad marker", {{"stage", "decode_image"}}),
               "x.jpg", {{"file", "x.jpg"}, {"stage", "other"}});
  EXPECT_EQ(status.message(), "x.jpg: bad marker");
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("stage"), "decode_image");
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("file"), "x.jpg");
  EXPECT_TRUE(IsSampleError(status));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
}

TEST(ErrorTest, PlainStatusesHaveNoInfo) {
  EXPECT_FALSE(GetErrorInfo(absl::InternalError("x")).has_value());
  EXPECT_TRUE(Annotate(absl::OkStatus(), "prefix").ok());
}

}  // namespace
}  // namespace bulkhead
