#include "server/image/codecs/exif.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

std::string Number(uint32_t value, int bytes, bool little) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += static_cast<char>(value >> 8 * (little ? i : bytes - 1 - i));
  }
  return text;
}

// A TIFF header and a directory with a maker and an orientation.
std::string Tiff(uint32_t orientation, bool little, uint32_t type = 3, uint32_t count = 1) {
  const auto entry = [&](uint32_t tag, uint32_t entry_type, uint32_t entry_count,
                         const std::string& value) {
    return Number(tag, 2, little) + Number(entry_type, 2, little) + Number(entry_count, 4, little) +
           value;
  };
  return (little ? std::string("II*\0", 4) : std::string("MM\0*", 4)) + Number(8, 4, little) +
         Number(2, 2, little) + entry(0x010F, 2, 4, "abc" + std::string(1, '\0')) +
         entry(0x0112, type, count, Number(orientation, 2, little) + std::string(2, '\0')) +
         std::string(4, '\0');
}

std::string JpegWith(const std::string& tiff) {
  const std::string data = std::string("Exif\0\0", 6) + tiff;
  std::string file = MakeJpeg(8, 8);
  return file.insert(2, "\xFF\xE1" + Number(data.size() + 2, 2, false) + data);
}

int OfJpeg(const std::string& file) { return ReadOrientation(ImageFormat::kJpeg, file); }

TEST(ExifTest, BothByteOrdersAreRead) {
  for (const bool little : {false, true}) {
    for (uint32_t orientation = 1; orientation <= 8; ++orientation) {
      EXPECT_EQ(OfJpeg(JpegWith(Tiff(orientation, little))), static_cast<int>(orientation));
    }
  }
}

TEST(ExifTest, OddValuesMeanUpright) {
  EXPECT_EQ(OfJpeg(MakeJpeg(8, 8)), 1);
  EXPECT_EQ(OfJpeg(JpegWith(Tiff(0, true))), 1);
  EXPECT_EQ(OfJpeg(JpegWith(Tiff(9, true))), 1);
  EXPECT_EQ(OfJpeg(JpegWith(Tiff(6, true, 4))), 1);
  EXPECT_EQ(OfJpeg(JpegWith(Tiff(6, true, 3, 2))), 1);
  EXPECT_EQ(OfJpeg(JpegWith("II*")), 1);
  std::string far = Tiff(6, false);
  far.replace(4, 4, "\xFF\xFF\xFF\xFF");
  EXPECT_EQ(OfJpeg(JpegWith(far)), 1);
  EXPECT_EQ(ReadOrientation(ImageFormat::kBmp, JpegWith(Tiff(6, true))), 1);
}

TEST(ExifTest, PngAndWebpChunksAreFound) {
  const std::string tiff = Tiff(7, false);
  std::string png = EncodePng(MakePicture(4, 4, 3).view()).value();
  const std::string chunk = Number(tiff.size(), 4, false) + "eXIf" + tiff + "crc?";
  EXPECT_EQ(ReadOrientation(ImageFormat::kPng, png), 1);
  EXPECT_EQ(ReadOrientation(ImageFormat::kPng, png.insert(33, chunk)), 7);
  const std::string webp =
      "RIFF....WEBPVP8X" + Number(3, 4, true) + "abc?EXIF" + Number(tiff.size(), 4, true) + tiff;
  EXPECT_EQ(ReadOrientation(ImageFormat::kWebp, webp), 7);
}

// Run with the address sanitizer this shows reads beyond the end.
TEST(ExifTest, EveryCutOfEveryFormatIsRead) {
  const std::string tiff = Tiff(7, false);
  std::string png = EncodePng(MakePicture(4, 4, 3).view()).value();
  png.insert(33, Number(tiff.size(), 4, false) + "eXIf" + tiff + "crc?");
  const std::string webp = "RIFF....WEBPEXIF" + Number(tiff.size(), 4, true) + tiff;
  for (const auto& [format, file] :
       {std::pair{ImageFormat::kJpeg, JpegWith(tiff)}, std::pair{ImageFormat::kPng, png},
        std::pair{ImageFormat::kWebp, webp}}) {
    for (size_t size = 0; size <= file.size(); ++size) {
      const std::vector<char> exact(file.begin(), file.begin() + size);
      const int found = ReadOrientation(format, absl::string_view(exact.data(), exact.size()));
      ASSERT_TRUE(found == 1 || found == 7) << size;
    }
    EXPECT_EQ(ReadOrientation(format, file), 7);
  }
}

}  // namespace
}  // namespace bulkhead
