#include "tools/measure/decode_limit.h"

#include <gtest/gtest.h>

#include "server/image/codecs/encode.h"
#include "tests/support/test_dir.h"

namespace bulkhead::tools {
namespace {

std::string SmallJpeg() {
  const std::vector<uint8_t> gray(20 * 10, 128);
  return EncodeJpeg({gray.data(), 10, 20, 1, 20}, JpegEncodeOptions()).value();
}

TEST(DecodeLimitTest, CountsEveryFileOncePerRepeat) {
  TestDir dir;
  dir.Write("a.jpg", SmallJpeg());
  dir.Write("deep/er/b.JPEG", SmallJpeg());
  dir.Write("notes.txt", "no image");
  const auto files = ReadJpegFiles(dir.path().string());
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 2u);
  const auto limit = MeasureDecodeLimit(*files, 3, 5);
  ASSERT_TRUE(limit.ok()) << limit.status();
  EXPECT_EQ(limit->images, 10u);
  EXPECT_DOUBLE_EQ(limit->megapixels, 10 * 200 / 1e6);
  EXPECT_GT(limit->images_per_second(), 0);
}

TEST(DecodeLimitTest, AFileThatIsNoJpegIsAnError) {
  TestDir dir;
  dir.Write("a.jpg", "this is no JPEG");
  const auto files = ReadJpegFiles(dir.path().string());
  ASSERT_TRUE(files.ok());
  EXPECT_FALSE(MeasureDecodeLimit(*files, 2, 1).ok());
}

TEST(DecodeLimitTest, AnErrorNamesTheFile) {
  TestDir dir;
  dir.Write("a.jpg", SmallJpeg());
  const std::string empty = dir.Write("deep/e.jpg", "");
  const auto files = ReadJpegFiles(dir.path().string());
  ASSERT_TRUE(files.ok()) << files.status();
  const absl::Status status = MeasureDecodeLimit(*files, 1, 1).status();
  EXPECT_EQ(std::string(status.message()).rfind(empty + ": ", 0), 0u) << status;
}

TEST(DecodeLimitTest, AFolderWithoutJpegsIsAnError) {
  TestDir dir;
  EXPECT_EQ(ReadJpegFiles(dir.path().string()).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace bulkhead::tools
