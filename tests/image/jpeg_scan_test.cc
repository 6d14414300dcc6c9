#include "server/image/codecs/jpeg_scan.h"

#include <gtest/gtest.h>

#include "server/base/error.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

std::string Verdict(absl::string_view file, uint64_t max_pixels = 1'000'000) {
  const auto structure = ScanJpeg(file, max_pixels);
  if (structure.ok()) return "";
  EXPECT_TRUE(IsSampleError(structure.status()));
  return GetErrorInfo(structure.status())->reason;
}

TEST(JpegScanTest, TellsSizeComponentsAndScans) {
  const auto baseline = ScanJpeg(MakeJpeg(30, 50), 1500);
  ASSERT_TRUE(baseline.ok());
  EXPECT_EQ(baseline->size, (ImageSize{30, 50}));
  EXPECT_EQ(baseline->component_count, 3);
  EXPECT_EQ(baseline->scan_count, 1);
  JpegEncodeOptions options;
  options.progressive = true;
  EXPECT_GT(ScanJpeg(MakeJpeg(30, 50, options), 1500)->scan_count, 5);
}

TEST(JpegScanTest, BytesBehindTheEndAreIgnored) {
  EXPECT_EQ(Verdict(MakeJpeg(16, 16) + "trailing"), "");
}

TEST(JpegScanTest, FileWithoutEndIsTruncated) {
  const std::string file = MakeJpeg(16, 16);
  for (size_t size = 0; size < file.size(); ++size) {
    ASSERT_EQ(Verdict(file.substr(0, size)), "TRUNCATED_IMAGE") << size;
  }
}

TEST(JpegScanTest, GarbageBetweenSegmentsIsCorrupt) {
  std::string file = MakeJpeg(16, 16);
  file.insert(file.find("\xFF\xC0"), "x");
  EXPECT_EQ(Verdict(file), "CORRUPT_IMAGE");
}

TEST(JpegScanTest, FillBytesBeforeMarkersAreAllowed) {
  std::string file = MakeJpeg(16, 16);
  file.insert(file.find("\xFF\xC0"), "\xFF\xFF");
  file.insert(file.size() - 2, "\xFF");
  EXPECT_EQ(Verdict(file), "");
}

TEST(JpegScanTest, RestartMarkersMustBeInOrderAndAnnounced) {
  JpegEncodeOptions options;
  options.restart_interval = 1;
  std::string file = MakeJpeg(64, 64, options);
  EXPECT_EQ(Verdict(file), "");
  std::string swapped = file;
  swapped[swapped.find("\xFF\xD1") + 1] = '\xD2';
  EXPECT_EQ(Verdict(swapped), "CORRUPT_IMAGE");
  const size_t dri = file.find(std::string("\xFF\xDD\x00\x04", 4));
  file[dri + 5] = 0;
  EXPECT_EQ(Verdict(file), "CORRUPT_IMAGE");
}

TEST(JpegScanTest, PixelCapIsCheckedBeforeTheRestIsRead) {
  const std::string file = MakeJpeg(20, 20);
  EXPECT_EQ(Verdict(file, 400), "");
  EXPECT_EQ(Verdict(file, 399), "IMAGE_TOO_LARGE");
  EXPECT_EQ(Verdict(file.substr(0, file.find("\xFF\xDA")), 399), "IMAGE_TOO_LARGE");
}

TEST(JpegScanTest, ThousandsOfScansAreRefused) {
  const std::string file = MakeJpeg(8, 8, {}, 1);
  const size_t scan = file.find("\xFF\xDA");
  const std::string one = file.substr(scan, file.size() - 2 - scan);
  std::string many = file.substr(0, scan);
  for (int i = 0; i < 1001; ++i) many += one;
  EXPECT_EQ(Verdict(many + "\xFF\xD9"), "CORRUPT_IMAGE");
}

TEST(JpegScanTest, MissingFrameOrScanIsCorrupt) {
  EXPECT_EQ(Verdict("\xFF\xD8\xFF\xD9"), "CORRUPT_IMAGE");
  EXPECT_EQ(Verdict("\x89PNG"), "CORRUPT_IMAGE");
}

}  // namespace
}  // namespace bulkhead
