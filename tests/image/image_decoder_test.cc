#include "server/image/codecs/image_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spng.h>
#include <webp/encode.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/codecs/imgcodecs_plugin.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMaxPixels = 1'000'000;

std::string Reason(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  return info.has_value() ? info->reason : "";
}

// The whole image's pixels, or "!" and the reason of the sample error.
std::string Decode(absl::string_view file, PixelFormat format, uint64_t max_pixels = kMaxPixels) {
  ImageDecoder decoder;
  Image image;
  const auto size = decoder.Open(file, max_pixels);
  if (!size.ok()) return absl::StrCat("!", Reason(size.status()));
  const auto pixels = decoder.Decode(format, WholeImage(*size), image);
  if (!pixels.ok()) return absl::StrCat("!", Reason(pixels.status()));
  return PixelsOf(*pixels);
}

std::string MakeWebp(const ImageView& image, bool lossless) {
  uint8_t* memory = nullptr;
  const size_t size = lossless ? WebPEncodeLosslessRGB(image.data, image.width, image.height,
                                                       static_cast<int>(image.stride), &memory)
                               : WebPEncodeRGB(image.data, image.width, image.height,
                                               static_cast<int>(image.stride), 80, &memory);
  std::string file(reinterpret_cast<char*>(memory), size);
  WebPFree(memory);
  return file;
}

// What is planned for decoding the middle 20 × 20 pixels of `file`.
uint64_t Planned(absl::string_view file, PixelFormat format = PixelFormat::kRgb) {
  ImageDecoder decoder;
  EXPECT_TRUE(decoder.Open(file, kMaxPixels).ok());
  return decoder.PlannedBytes(format, {30, 30, 20, 20});
}

// What OpenCV's imread gives in `format` (BGR or gray).
std::string OpenCvPixels(const std::string& file, PixelFormat format) {
  const auto plugin = ImgcodecsPlugin::Load();
  if (!plugin.ok()) return std::string(plugin.status().message());
  Image image;
  return PixelsOf((*plugin)->Decode(file, format, image).value());
}

// An uncompressed 24-bit BMP.
std::string MakeBmp(const ImageView& rgb) {
  const auto little = [](uint32_t value) {
    return std::string(reinterpret_cast<const char*>(&value), 4);
  };
  const size_t row_bytes = (rgb.row_bytes() + 3) / 4 * 4;
  std::string file = "BM" + little(54 + row_bytes * rgb.height) + little(0) + little(54) +
                     little(40) + little(rgb.width) + little(rgb.height) +
                     std::string("\x01\x00\x18\x00", 4) + std::string(24, '\0');
  for (int y = rgb.height - 1; y >= 0; --y) {
    for (int x = 0; x < rgb.width; ++x) {
      for (int c = 2; c >= 0; --c) file += static_cast<char>(rgb.row(y)[3 * x + c]);
    }
    file.append(row_bytes - rgb.row_bytes(), '\0');
  }
  return file;
}

std::string MakePnm(const ImageView& rgb) {
  return absl::StrCat("P6\n# by hand\n", rgb.width, " ", rgb.height, "\n255\n") + PixelsOf(rgb);
}

std::string SwapChannels(std::string rgb) {
  for (size_t i = 0; i + 2 < rgb.size(); i += 3) std::swap(rgb[i], rgb[i + 2]);
  return rgb;
}

TEST(ImageDecoderTest, ATextIsCalledSo) {
  ImageDecoder decoder;
  const auto said = [&](absl::string_view file) {
    const absl::Status status = decoder.Open(file, kMaxPixels).status();
    EXPECT_EQ(Reason(status), reason::kUnsupportedImage);
    return std::string(status.message());
  };
  EXPECT_THAT(said("\r\n <!DOCTYPE html>\n<html>"),
              testing::HasSubstr("a text, such as a web page, and no image; it begins with "
                                 "`<!DOCTYPE html>`"));
  EXPECT_THAT(said(std::string(100, 'x')),
              testing::HasSubstr(absl::StrCat("`", std::string(40, 'x'), "`")));
  for (const absl::string_view file : {"text\x01", "\xffhtml", "\n"}) {
    EXPECT_THAT(said(file), testing::HasSubstr("the first bytes are those of no image format"));
  }
}

TEST(ImageDecoderTest, CountsJpegsByTheReasonWhyLibjpegDecodedThem) {
  ImageDecoder decoder;
  JpegEncodeOptions progressive;
  progressive.progressive = true;
  for (const std::string& file :
       {MakeJpeg(20, 30), MakeJpeg(20, 30), MakeJpeg(20, 30, progressive)}) {
    Image image;
    const ImageSize size = decoder.Open(file, 1000).value();
    ASSERT_TRUE(decoder.Decode(PixelFormat::kRgb, WholeImage(size), image).ok());
  }
  const jpeg::FallbackCounts& counts = decoder.jpeg_counts().files;
  EXPECT_EQ(counts[static_cast<size_t>(jpeg::Fallback::kNone)], 2u);
  EXPECT_EQ(counts[static_cast<size_t>(jpeg::Fallback::kScans)], 1u);
}

TEST(ImageDecoderTest, PngGivesBackWhatWasWritten) {
  const Image rgb = MakePicture(33, 47, 3);
  const std::string file = EncodePng(rgb.view()).value();
  EXPECT_EQ(Decode(file, PixelFormat::kRgb), PixelsOf(rgb.view()));
  EXPECT_EQ(Decode(file, PixelFormat::kBgr), SwapChannels(PixelsOf(rgb.view())));
  const Image rgba = MakePicture(33, 47, 4);
  EXPECT_EQ(Decode(EncodePng(rgba.view()).value(), PixelFormat::kRgba), PixelsOf(rgba.view()));
  const Image gray = MakePicture(33, 47, 1);
  EXPECT_EQ(Decode(EncodePng(gray.view()).value(), PixelFormat::kGray), PixelsOf(gray.view()));
}

TEST(ImageDecoderTest, PngBgrAndGrayAreThoseOfOpenCv) {
  for (const int channels : {1, 3, 4}) {
    const std::string file = EncodePng(MakePicture(60, 81, channels).view()).value();
    EXPECT_TRUE(Decode(file, PixelFormat::kBgr) == OpenCvPixels(file, PixelFormat::kBgr));
    EXPECT_TRUE(Decode(file, PixelFormat::kGray) == OpenCvPixels(file, PixelFormat::kGray));
  }
}

// A PNG with 16 bits a sample and `channels` channels.
std::string MakeDeepPng(int height, int width, int channels) {
  const Image bytes = MakePicture(height, width, channels * 2);
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = width;
  header.height = height;
  header.bit_depth = 16;
  header.color_type = channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  spng_set_ihdr(context, &header);
  EXPECT_EQ(spng_encode_image(context, bytes.view().data, bytes.view().row_bytes() * height,
                              SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE),
            0);
  size_t size = 0;
  int error = 0;
  void* memory = spng_get_png_buffer(context, &size, &error);
  std::string file(static_cast<char*>(memory), size);
  std::free(memory);
  spng_ctx_free(context);
  return file;
}

TEST(ImageDecoderTest, DeepPngLosesItsLowerBitsAsInOpenCv) {
  for (const int channels : {1, 3}) {
    const std::string file = MakeDeepPng(30, 40, channels);
    EXPECT_TRUE(Decode(file, PixelFormat::kBgr) == OpenCvPixels(file, PixelFormat::kBgr));
  }
}

// The uint16s of a deep decode.
std::vector<uint16_t> DecodeDeep(const std::string& file, PixelFormat format) {
  ImageDecoder decoder;
  Image bytes;
  Image deep;
  EXPECT_TRUE(decoder.Open(file, kMaxPixels).ok());
  const auto pixels = decoder.DecodeDeep(format, bytes, deep);
  EXPECT_TRUE(pixels.ok()) << pixels.status();
  if (!pixels.ok()) return {};
  const std::string text = PixelsOf(*pixels);
  std::vector<uint16_t> values(text.size() / 2);
  std::memcpy(values.data(), text.data(), text.size());
  return values;
}

// What MakeDeepPng wrote: libspng takes samples of this machine's byte order.
std::vector<uint16_t> DeepValues(int height, int width, int channels) {
  const std::string text = PixelsOf(MakePicture(height, width, channels * 2).view());
  std::vector<uint16_t> values(text.size() / 2);
  std::memcpy(values.data(), text.data(), text.size());
  return values;
}

TEST(ImageDecoderTest, DeepPngKeepsItsBitsWhereAsked) {
  const std::string color = MakeDeepPng(30, 40, 3);
  const std::vector<uint16_t> rgb = DeepValues(30, 40, 3);
  EXPECT_TRUE(DecodeDeep(color, PixelFormat::kRgb) == rgb);
  EXPECT_TRUE(DecodeDeep(MakeDeepPng(30, 40, 1), PixelFormat::kGray) == DeepValues(30, 40, 1));
  const std::vector<uint16_t> bgr = DecodeDeep(color, PixelFormat::kBgr);
  const std::vector<uint16_t> rgba = DecodeDeep(color, PixelFormat::kRgba);
  ASSERT_EQ(bgr.size(), rgb.size());
  ASSERT_EQ(rgba.size(), rgb.size() / 3 * 4);
  for (size_t i = 0; i < rgb.size() / 3; ++i) {
    ASSERT_EQ(bgr[3 * i], rgb[3 * i + 2]);
    ASSERT_EQ(bgr[3 * i + 1], rgb[3 * i + 1]);
    ASSERT_EQ(bgr[3 * i + 2], rgb[3 * i]);
    ASSERT_EQ(rgba[4 * i + 2], rgb[3 * i + 2]);
    ASSERT_EQ(rgba[4 * i + 3], 65535);
  }
}

TEST(ImageDecoderTest, EightBitsBecomeSixteenByTheirMultiple) {
  const Image picture = MakePicture(13, 17, 3);
  const std::string bytes = PixelsOf(picture.view());
  for (const std::string& file : {EncodePng(picture.view()).value(), MakePnm(picture.view())}) {
    const std::vector<uint16_t> deep = DecodeDeep(file, PixelFormat::kRgb);
    ASSERT_EQ(deep.size(), bytes.size());
    for (size_t i = 0; i < deep.size(); ++i) {
      ASSERT_EQ(deep[i], static_cast<uint8_t>(bytes[i]) * 257);
    }
  }
}

TEST(ImageDecoderTest, WebpBgrAndGrayAreThoseOfOpenCv) {
  const Image picture = MakePicture(60, 81, 3);
  for (const bool lossless : {false, true}) {
    const std::string file = MakeWebp(picture.view(), lossless);
    EXPECT_TRUE(Decode(file, PixelFormat::kBgr) == OpenCvPixels(file, PixelFormat::kBgr));
    EXPECT_TRUE(Decode(file, PixelFormat::kGray) == OpenCvPixels(file, PixelFormat::kGray));
  }
  EXPECT_EQ(Decode(MakeWebp(picture.view(), true), PixelFormat::kRgb), PixelsOf(picture.view()));
}

TEST(ImageDecoderTest, RareFormatsGoThroughThePlugin) {
  const Image picture = MakePicture(21, 35, 3);
  for (const std::string& file : {MakeBmp(picture.view()), MakePnm(picture.view())}) {
    EXPECT_EQ(Decode(file, PixelFormat::kRgb), PixelsOf(picture.view()));
    EXPECT_EQ(Decode(file, PixelFormat::kBgr), SwapChannels(PixelsOf(picture.view())));
    const std::string rgba = Decode(file, PixelFormat::kRgba);
    ASSERT_EQ(rgba.size(), 21u * 35 * 4);
    EXPECT_EQ(rgba.substr(0, 3), PixelsOf(picture.view()).substr(0, 3));
    EXPECT_EQ(rgba[3], '\xff');
  }
}

TEST(ImageDecoderTest, RegionOfAnyFormatIsThatPartOfTheImage) {
  const Image picture = MakePicture(40, 50, 3);
  const Rect rect{7, 11, 20, 13};
  for (const std::string& file : {EncodePng(picture.view()).value(), MakeWebp(picture.view(), true),
                                  MakeBmp(picture.view())}) {
    ImageDecoder decoder;
    Image image;
    ASSERT_EQ(decoder.Open(file, kMaxPixels).value(), (ImageSize{40, 50}));
    EXPECT_EQ(PixelsOf(decoder.Decode(PixelFormat::kRgb, rect, image).value()),
              PixelsOf(picture.view().Crop(rect)));
  }
}

TEST(ImageDecoderTest, EveryCutIsASampleError) {
  const Image picture = MakePicture(14, 17, 3);
  for (const std::string& file : {EncodePng(picture.view()).value(), MakeWebp(picture.view(), true),
                                  MakeWebp(picture.view(), false), MakeJpeg(14, 17)}) {
    // A PNG's very last field, the checksum of a chunk without contents, is not missed.
    const size_t needed_bytes = file[0] == '\x89' ? file.size() - 4 : file.size();
    for (size_t size = 0; size < needed_bytes; ++size) {
      const std::string result = Decode(file.substr(0, size), PixelFormat::kRgb);
      ASSERT_EQ(result.substr(0, 1), "!") << size << " of " << file.size();
    }
  }
}

TEST(ImageDecoderTest, FlippedBitsNeverDoMoreThanASampleError) {
  const Image picture = MakePicture(24, 31, 3);
  SampleRandom random(3, 0, 0, 0);
  for (const std::string& file :
       {EncodePng(picture.view()).value(), MakeWebp(picture.view(), true),
        MakeWebp(picture.view(), false), MakeBmp(picture.view()), MakePnm(picture.view())}) {
    for (int i = 0; i < 300; ++i) {
      std::string damaged = file;
      damaged[random.NextBelow(damaged.size())] ^= static_cast<char>(1 << random.NextBelow(8));
      ImageDecoder decoder;
      Image image;
      const auto size = decoder.Open(damaged, kMaxPixels);
      if (!size.ok()) {
        ASSERT_TRUE(IsSampleError(size.status())) << size.status();
        continue;
      }
      const auto pixels = decoder.Decode(PixelFormat::kRgb, WholeImage(*size), image);
      if (!pixels.ok()) {
        ASSERT_TRUE(IsSampleError(pixels.status())) << pixels.status();
      } else {
        ASSERT_EQ(pixels->size(), *size);
      }
    }
  }
}

TEST(ImageDecoderTest, PixelCapHoldsForEveryFormat) {
  const Image picture = MakePicture(20, 30, 3);
  for (const std::string& file :
       {EncodePng(picture.view()).value(), MakeWebp(picture.view(), true), MakeJpeg(20, 30),
        MakeBmp(picture.view()), MakePnm(picture.view())}) {
    EXPECT_EQ(Decode(file, PixelFormat::kRgb, 599), "!IMAGE_TOO_LARGE");
    EXPECT_NE(Decode(file, PixelFormat::kRgb, 600)[0], '!');
  }
}

TEST(ImageDecoderTest, TiffHeadersOfBothByteOrdersAreReadForTheCap) {
  const std::string little(
      "II*\0\x08\0\0\0\x02\0\0\x01\x04\0\x01\0\0\0\x60\xEA\0\0"
      "\x01\x01\x03\0\x01\0\0\0\x60\xEA\0\0",
      34);
  const std::string big(
      "MM\0*\0\0\0\x08\0\x02\x01\0\0\x04\0\0\0\x01\0\0\xEA\x60"
      "\x01\x01\0\x03\0\0\0\x01\xEA\x60\0\0",
      34);
  EXPECT_EQ(Decode(little, PixelFormat::kRgb), "!IMAGE_TOO_LARGE");
  EXPECT_EQ(Decode(big, PixelFormat::kRgb), "!IMAGE_TOO_LARGE");
  EXPECT_EQ(Decode(big.substr(0, 30), PixelFormat::kRgb), "!TRUNCATED_IMAGE");
}

TEST(ImageDecoderTest, BmpsWithOtherMasksOrCompressionsAreRefused) {
  const auto put = [](std::string file, size_t at, const std::string& bytes) {
    return file.replace(at, bytes.size(), bytes);
  };
  const std::string plain = MakeBmp(MakePicture(21, 35, 3).view());
  EXPECT_EQ(Decode(put(plain, 28, std::string("\x10\0", 2)), PixelFormat::kRgb),
            "!UNSUPPORTED_IMAGE");
  EXPECT_EQ(Decode(put(plain, 30, "\x01"), PixelFormat::kRgb), "!UNSUPPORTED_IMAGE");
  EXPECT_EQ(Decode(put(plain, 10, "\x10"), PixelFormat::kRgb), "!CORRUPT_IMAGE");
  EXPECT_EQ(Decode(plain.substr(0, plain.size() - 1), PixelFormat::kRgb), "!TRUNCATED_IMAGE");
  // 32 bits a pixel whose fourth byte means nothing, or is said to be alpha by a longer header.
  const std::string size("\x02\0\0\0\x01\0\0\0\x01\0\x20\0", 12);
  const std::string pixels("\x01\x02\x03\x04\x05\x06\x07\x08", 8);
  const std::string file_header("BM\0\0\0\0\0\0\0\0", 10);
  const std::string opaque =
      file_header + std::string("\x36\0\0\0\x28\0\0\0", 8) + size + std::string(24, '\0') + pixels;
  EXPECT_EQ(Decode(opaque, PixelFormat::kRgba), "\x03\x02\x01\xff\x07\x06\x05\xff");
  const std::string masks("\0\0\xff\0\0\xff\0\0\xff\0\0\0\0\0\0\xff", 16);
  const std::string clear = file_header + std::string("\x7a\0\0\0\x6c\0\0\0", 8) + size +
                            std::string("\x03\0\0\0", 4) + std::string(20, '\0') + masks +
                            std::string(52, '\0') + pixels;
  EXPECT_EQ(Decode(clear, PixelFormat::kRgba), "\x03\x02\x01\x04\x07\x06\x05\x08");
  EXPECT_EQ(Decode(put(clear, 54, "\xff"), PixelFormat::kRgba), "!UNSUPPORTED_IMAGE");
}

TEST(ImageDecoderTest, UnknownEmptyAndGifFilesAreNamedAsSuch) {
  EXPECT_EQ(Decode("", PixelFormat::kRgb), "!TRUNCATED_IMAGE");
  EXPECT_EQ(Decode("hello, this is text", PixelFormat::kRgb), "!UNSUPPORTED_IMAGE");
  EXPECT_EQ(Decode("GIF89a and more", PixelFormat::kRgb), "!UNSUPPORTED_IMAGE");
}

TEST(ImageDecoderTest, PlansWhatADecodeWillHold) {
  const uint64_t crop = 20 * 20 * 3;
  EXPECT_EQ(Planned(MakeJpeg(80, 80)), crop);
  EXPECT_EQ(Planned(MakeJpeg(80, 80), PixelFormat::kGray), crop / 3);
  // All coefficients of a file of several scans, and whole rows.
  EXPECT_EQ(Planned(MakeJpeg(80, 80, {.progressive = true})), 20 * 80 * 3 + 80 * 80 * 3);
  const JpegEncodeOptions full = {
      .chroma_width_divisor = 1, .chroma_height_divisor = 1, .progressive = true};
  EXPECT_EQ(Planned(MakeJpeg(80, 80, full)), 20 * 80 * 3 + 80 * 80 * 6);
  const Image picture = MakePicture(80, 80, 3);
  EXPECT_EQ(Planned(EncodePng(picture.view()).value()), 80 * 80 * 3);
  EXPECT_EQ(Planned(EncodePng(picture.view()).value(), PixelFormat::kGray), 80 * 80 * 3);
  EXPECT_EQ(Planned(MakeWebp(picture.view(), true)), 80 * 80 * 7);
}

// Of the kind that takes most: several scans, colours in full, alpha asked for.
TEST(ImageDecoderTest, An8kPhotoFitsTheAllowanceOfTheDefaultQuota) {
  constexpr int kHeight = 4320;
  constexpr int kWidth = 7680;
  constexpr uint64_t kQuotaBytes = uint64_t{512} << 20;
  constexpr uint64_t kWarmBytes = uint64_t{64} << 20;  // of a worker, before its first sample
  std::string file = MakeJpeg(
      80, 80, {.chroma_width_divisor = 1, .chroma_height_divisor = 1, .progressive = true});
  const size_t frame = file.find("\xff\xc2");
  ASSERT_NE(frame, std::string::npos);
  for (const auto& [at, value] : {std::pair{frame + 5, kHeight}, std::pair{frame + 7, kWidth}}) {
    file[at] = static_cast<char>(value >> 8);
    file[at + 1] = static_cast<char>(value);
  }
  ImageDecoder decoder;
  ASSERT_EQ(decoder.Open(file, 36'000'000).value(), (ImageSize{kHeight, kWidth}));
  const uint64_t planned = decoder.PlannedBytes(PixelFormat::kRgba, {0, 0, kHeight, kWidth});
  EXPECT_EQ(planned, uint64_t{kHeight} * kWidth * (6 + 4));
  EXPECT_LE(planned, kQuotaBytes / 5 * 4 - kWarmBytes);
}

TEST(ImageDecoderTest, TakesItsShareBeforeItDecodes) {
  DecodeAllowance allowance(80 * 80 * 3, 1);
  DecodeShare share;
  share.SetAllowance(&allowance);
  ImageDecoder decoder;
  decoder.SetShare(&share);
  const std::string file = MakeJpeg(80, 80);
  ASSERT_TRUE(decoder.Open(file, kMaxPixels).ok());
  Image image;
  ASSERT_TRUE(decoder.Decode(PixelFormat::kRgb, {0, 0, 80, 80}, image).ok());
  EXPECT_TRUE(share.GiveBack()) << "nothing was taken";
}

}  // namespace
}  // namespace bulkhead
