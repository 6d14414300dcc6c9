#include "server/image/codecs/jpeg_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
// jpeglib.h needs size_t and FILE to be declared before it.
#include <jpeglib.h>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/codecs/imgcodecs_plugin.h"
#include "server/image/codecs/plain_jpeg.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMostPixels = 32'000'000;

// "" for OK, else the reason: what a verdict is.
std::string Verdict(const absl::Status& status) {
  if (status.ok()) return "";
  EXPECT_TRUE(IsSampleError(status)) << status;
  return GetErrorInfo(status)->reason;
}

struct Outcome {
  std::string verdict;
  std::string pixels;
  ImageSize size;
};

// Decodes the part under `rect`, or with rect.height = 0 the whole image.
Outcome Decode(JpegDecoder& decoder, absl::string_view file, PixelFormat format, Rect rect = {}) {
  Image image;
  const auto size = decoder.Open(file, kMostPixels);
  if (!size.ok()) return {Verdict(size.status()), "", {}};
  if (rect.height == 0) rect = WholeImage(*size);
  const auto pixels = decoder.Decode(format, rect, image);
  if (!pixels.ok()) return {Verdict(pixels.status()), "", *size};
  return {"", PixelsOf(*pixels), pixels->size()};
}

// The part of whole rows of pixels under `rect`.
std::string Cut(const std::string& pixels, int width, int channels, const Rect& rect) {
  std::string part;
  for (int y = rect.top; y < rect.bottom(); ++y) {
    part += pixels.substr((static_cast<size_t>(y) * width + rect.left) * channels,
                          static_cast<size_t>(rect.width) * channels);
  }
  return part;
}

Rect RandomRect(ImageSize size, SampleRandom& random) {
  Rect rect;
  rect.height = 1 + static_cast<int>(random.NextBelow(size.height));
  rect.width = 1 + static_cast<int>(random.NextBelow(size.width));
  rect.top = static_cast<int>(random.NextBelow(size.height - rect.height + 1));
  rect.left = static_cast<int>(random.NextBelow(size.width - rect.width + 1));
  return rect;
}

// Whatever rectangle is asked for, its pixels and the verdict are those of a decode of all columns
// that stops at the same row.
void ExpectRegionsMatch(const std::string& file, ImageSize size, int regions, uint64_t seed) {
  JpegDecoder decoder;
  JpegDecoder reference;
  SampleRandom random(seed, 0, 0, 0);
  for (int i = 0; i < regions; ++i) {
    const auto format = static_cast<PixelFormat>(random.NextBelow(4));
    const Rect rect = RandomRect(size, random);
    SCOPED_TRACE(absl::StrCat("rect ", rect.top, " ", rect.left, " ", rect.height, " ", rect.width,
                              " of ", size.height, " ", size.width, " format ",
                              static_cast<int>(format)));
    const Outcome part = Decode(decoder, file, format, rect);
    const Outcome rows = Decode(reference, file, format, {0, 0, rect.bottom(), size.width});
    ASSERT_EQ(part.verdict, rows.verdict);
    if (rows.verdict.empty()) {
      ASSERT_TRUE(part.pixels == Cut(rows.pixels, size.width, ChannelCount(format), rect));
    }
  }
}

TEST(JpegDecoderTest, FullDecodeIsThatOfPlainLibjpeg) {
  const std::string file = MakeJpeg(131, 77);
  PlainJpegDecoder plain;
  JpegDecoder decoder;
  const Outcome rgb = Decode(decoder, file, PixelFormat::kRgb);
  EXPECT_EQ(rgb.verdict, "");
  EXPECT_EQ(rgb.size, (ImageSize{131, 77}));
  EXPECT_EQ(rgb.pixels, PixelsOf(plain.Decode(file).value()));
}

void ExpectThoseOfOpenCv(const std::vector<std::string>& files) {
  const auto plugin = ImgcodecsPlugin::Load();
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  JpegDecoder decoder;
  for (const std::string& file : files) {
    for (const PixelFormat format : {PixelFormat::kBgr, PixelFormat::kGray}) {
      Image image;
      const auto expected = (*plugin)->Decode(file, format, image);
      ASSERT_TRUE(expected.ok()) << expected.status();
      const Outcome ours = Decode(decoder, file, format);
      ASSERT_EQ(ours.verdict, "");
      EXPECT_TRUE(ours.pixels == PixelsOf(*expected));
    }
  }
}

TEST(JpegDecoderTest, BgrAndGrayAreThoseOfOpenCv) {
  std::vector<std::string> files;
  for (const int divisor : {1, 2}) {
    JpegEncodeOptions options;
    options.chroma_width_divisor = 2;
    options.chroma_height_divisor = divisor;
    files.push_back(MakeJpeg(97, 203, options));
    options.progressive = true;
    files.push_back(MakeJpeg(97, 203, options));
  }
  files.push_back(MakeJpeg(50, 60, {}, 1));
  ExpectThoseOfOpenCv(files);
}

TEST(JpegDecoderTest, BgrAndGrayAreThoseOfOpenCvOnPhotos) {
  const std::vector<std::string> photos = ReadPhotos(10);
  if (photos.empty()) GTEST_SKIP() << kNoPhotos;
  ExpectThoseOfOpenCv(photos);
}

// A JPEG of four components, as print shops send them.
std::string MakeCmykJpeg(int height, int width, J_COLOR_SPACE stored) {
  const Image picture = MakePicture(height, width, 4);
  jpeg_compress_struct info{};
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = 4;
  info.in_color_space = JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, stored);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < height; ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(picture.view().row(y));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<char*>(memory), size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return file;
}

// That the pixels are Pillow's is tested with tests/golden. OpenCV divides by 256, not 255, and
// cuts the fraction off.
TEST(JpegDecoderTest, CmykAndYcckAreWithinTwoOfOpenCv) {
  const auto plugin = ImgcodecsPlugin::Load();
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  JpegDecoder decoder;
  for (const J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK}) {
    const std::string file = MakeCmykJpeg(37, 51, stored);
    for (const PixelFormat format : {PixelFormat::kBgr, PixelFormat::kGray}) {
      Image image;
      const std::string expected = PixelsOf((*plugin)->Decode(file, format, image).value());
      const std::string ours = Decode(decoder, file, format).pixels;
      ASSERT_EQ(ours.size(), expected.size());
      for (size_t i = 0; i < ours.size(); ++i) {
        ASSERT_NEAR(static_cast<uint8_t>(ours[i]), static_cast<uint8_t>(expected[i]), 2);
      }
    }
    ExpectRegionsMatch(file, {37, 51}, 20, 1);
  }
}

// What a decode with `options` gives of the part under `rect` (height 0: of all).
Outcome DecodeWith(JpegDecoder& decoder, absl::string_view file, const DecodeOptions& options,
                   Rect rect = {}) {
  Image image;
  const auto size = decoder.Open(file, kMostPixels, options);
  if (!size.ok()) return {Verdict(size.status()), "", {}};
  if (rect.height == 0) rect = WholeImage(*size);
  const auto pixels = decoder.Decode(PixelFormat::kRgb, rect, image);
  if (!pixels.ok()) return {Verdict(pixels.status()), "", *size};
  return {"", PixelsOf(*pixels), *size};
}

TEST(JpegDecoderTest, RegionsAreBitExactWithEveryOption) {
  JpegEncodeOptions sampling;
  sampling.restart_interval = 4;
  SampleRandom random(3, 0, 0, 0);
  for (const bool progressive : {false, true}) {
    sampling.progressive = progressive;
    const std::string file = MakeJpeg(151, 213, sampling);
    for (const int scale : {1, 2, 4, 8}) {
      for (const bool fancy : {true, false}) {
        for (const DctMethod dct : {DctMethod::kIslow, DctMethod::kIfast}) {
          DecodeOptions options;
          options.scale = scale;
          options.fancy_upsampling = fancy;
          options.dct = dct;
          JpegDecoder decoder;
          const Outcome whole = DecodeWith(decoder, file, options);
          ASSERT_EQ(whole.verdict, "");
          ASSERT_EQ(whole.size, (ImageSize{(150 + scale) / scale, (212 + scale) / scale}));
          for (int i = 0; i < 8; ++i) {
            const Rect rect = RandomRect(whole.size, random);
            const Outcome part = DecodeWith(decoder, file, options, rect);
            ASSERT_EQ(part.verdict, "");
            ASSERT_TRUE(part.pixels == Cut(whole.pixels, whole.size.width, 3, rect))
                << scale << fancy << static_cast<int>(dct);
          }
          // The next file is decoded as it asks for itself.
          ASSERT_EQ(Decode(decoder, file, PixelFormat::kRgb).size, (ImageSize{151, 213}));
        }
      }
    }
  }
}

DecodeOptions Accept(double share) {
  DecodeOptions options;
  options.accept_truncated = share;
  return options;
}

TEST(JpegDecoderTest, TruncatedFilesKeepTheirRowsAndTheRestIsGray) {
  for (const int restart : {0, 15}) {
    for (const int divisor : {1, 2}) {
      JpegEncodeOptions encoding;
      encoding.restart_interval = restart;
      encoding.chroma_width_divisor = encoding.chroma_height_divisor = divisor;
      const std::string file = MakeJpeg(160, 240, encoding);
      JpegDecoder decoder;
      const Outcome whole = Decode(decoder, file, PixelFormat::kRgb);
      const size_t row_bytes = 240 * 3;
      int accepted = 0;
      for (size_t size = file.find("\xFF\xDA") + 14; size < file.size(); size += 331) {
        const absl::string_view cut = absl::string_view(file).substr(0, size);
        ASSERT_EQ(Decode(decoder, cut, PixelFormat::kRgb).verdict, "TRUNCATED_IMAGE");
        const Outcome any = DecodeWith(decoder, cut, Accept(1e-9));
        if (!any.verdict.empty()) {
          ASSERT_EQ(any.verdict, "TRUNCATED_IMAGE");
          continue;
        }
        ++accepted;
        // The first rows are the whole image's, as many as any accepted share; the last one is gray
        // while much is missing.
        int rows = 0;
        while (rows < 160 && any.pixels.compare(rows * row_bytes, row_bytes, whole.pixels,
                                                rows * row_bytes, row_bytes) == 0) {
          ++rows;
        }
        int claimed = 0;
        for (int step = 128; step > 0; step /= 2) {
          const int more = claimed + step;
          if (more > 160) continue;
          if (DecodeWith(decoder, cut, Accept(more / 160.0)).verdict.empty()) claimed = more;
        }
        ASSERT_LE(claimed, rows);
        ASSERT_GE(claimed, rows - 33);
        if (rows < 120) {
          ASSERT_EQ(any.pixels.substr(159 * row_bytes), std::string(row_bytes, '\x80'));
        }
        const Rect rect = {20, 30, 100, 50};
        ASSERT_TRUE(DecodeWith(decoder, cut, Accept(1e-9), rect).pixels ==
                    Cut(any.pixels, 240, 3, rect));
      }
      EXPECT_GT(accepted, 10);
      EXPECT_TRUE(Decode(decoder, file, PixelFormat::kRgb).pixels == whole.pixels);
    }
  }
}

TEST(JpegDecoderTest, MissingEndMarkerAloneLosesNoRow) {
  const std::string file = MakeJpeg(40, 56);
  JpegDecoder decoder;
  const Outcome cut = DecodeWith(decoder, file.substr(0, file.size() - 2), Accept(1));
  EXPECT_EQ(cut.verdict, "");
  EXPECT_TRUE(cut.pixels == Decode(decoder, file, PixelFormat::kRgb).pixels);
}

TEST(JpegDecoderTest, OnlyTruncationIsAccepted) {
  JpegEncodeOptions options;
  options.progressive = true;
  const std::string progressive = MakeJpeg(64, 64, options);
  JpegDecoder decoder;
  EXPECT_EQ(
      DecodeWith(decoder, progressive.substr(0, progressive.size() - 10), Accept(0.1)).verdict,
      "TRUNCATED_IMAGE");
  EXPECT_EQ(DecodeWith(decoder, MakeJpeg(40, 56).substr(0, 300), Accept(0.1)).verdict,
            "TRUNCATED_IMAGE");  // inside the header
  options.progressive = false;
  options.restart_interval = 3;
  std::string damaged = MakeJpeg(96, 96, options);
  damaged.erase(damaged.find("\xFF\xD0") - 20, 20);
  EXPECT_EQ(DecodeWith(decoder, damaged, Accept(0.1)).verdict, "CORRUPT_IMAGE");
  damaged.resize(damaged.size() - 100);
  EXPECT_EQ(DecodeWith(decoder, damaged, Accept(0.1)).verdict, "CORRUPT_IMAGE");
}

TEST(JpegDecoderTest, RgbaIsRgbWithOpaqueAlpha) {
  const std::string file = MakeJpeg(20, 30);
  JpegDecoder decoder;
  const std::string rgb = Decode(decoder, file, PixelFormat::kRgb).pixels;
  const std::string rgba = Decode(decoder, file, PixelFormat::kRgba).pixels;
  ASSERT_EQ(rgba.size(), rgb.size() / 3 * 4);
  for (size_t i = 0; i < rgb.size() / 3; ++i) {
    ASSERT_EQ(rgba.substr(4 * i, 3), rgb.substr(3 * i, 3));
    ASSERT_EQ(rgba[4 * i + 3], '\xff');
  }
}

TEST(JpegDecoderTest, RegionsAreBitExactForEverySampling) {
  for (const int across : {1, 2, 4}) {
    for (const int down : {1, 2, 4}) {
      for (const int restart : {0, 3}) {
        JpegEncodeOptions options;
        options.chroma_width_divisor = across;
        options.chroma_height_divisor = down;
        options.restart_interval = restart;
        options.progressive = across == 2 && down == 4;
        SCOPED_TRACE(absl::StrCat("sampling ", across, " ", down, " restart ", restart));
        const Image picture = MakePicture(151, 213, 3);
        const auto file = EncodeJpeg(picture.view(), options);
        if (!file.ok()) continue;  // libjpeg refuses more than ten blocks in an MCU
        ExpectRegionsMatch(*file, {151, 213}, 150, across * 10 + down);
      }
    }
  }
}

TEST(JpegDecoderTest, RegionsAreBitExactForTinyImages) {
  for (int height = 1; height <= 40; height += 3) {
    for (int width = 1; width <= 70; width += 3) {
      ExpectRegionsMatch(MakeJpeg(height, width), {height, width}, 4, height * 100 + width);
    }
  }
}

TEST(JpegDecoderTest, RegionsAreBitExactOnPhotos) {
  const std::vector<std::string> photos = ReadPhotos(4);
  if (photos.empty()) GTEST_SKIP() << kNoPhotos;
  JpegDecoder decoder;
  for (size_t i = 0; i < photos.size(); ++i) {
    SCOPED_TRACE(i);
    const ImageSize size = decoder.Open(photos[i], kMostPixels).value();
    ExpectRegionsMatch(photos[i], size, 3, i);
  }
}

// Damages: cut, or up to three flipped bits anywhere.
std::string Damage(std::string file, SampleRandom& random) {
  if (random.NextBelow(4) == 0) return file.substr(0, random.NextBelow(file.size()));
  const uint64_t flips = 1 + random.NextBelow(3);
  for (uint64_t i = 0; i < flips; ++i) {
    file[random.NextBelow(file.size())] ^= static_cast<char>(1 << random.NextBelow(8));
  }
  return file;
}

// Damages each of `files` twelve times; returns how many of them are no pictures any more.
int ExpectVerdictsWhateverTheRegion(const std::vector<std::string>& files) {
  SampleRandom random(7, 0, 0, 0);
  JpegDecoder decoder;
  int damaged = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    for (int k = 0; k < 12; ++k) {
      SCOPED_TRACE(absl::StrCat("file ", i, " damage ", k));
      const std::string file = Damage(files[i], random);
      const auto size = decoder.Open(file, kMostPixels);
      if (!size.ok()) {
        ++damaged;
        continue;
      }
      if (size->width > 5000 || size->height > 5000) continue;  // flipped sizes: only slow
      if (!Decode(decoder, file, PixelFormat::kRgb).verdict.empty()) ++damaged;
      ExpectRegionsMatch(file, *size, 3, i * 100 + k);
    }
  }
  return damaged;
}

TEST(JpegDecoderTest, VerdictOnDamagedPhotosDoesNotDependOnTheRegion) {
  const std::vector<std::string> photos = ReadPhotos(8);
  if (photos.empty()) GTEST_SKIP() << kNoPhotos;
  EXPECT_GT(ExpectVerdictsWhateverTheRegion(photos), static_cast<int>(photos.size()));
}

TEST(JpegDecoderTest, VerdictOnDamagedFilesDoesNotDependOnTheRegion) {
  std::vector<std::string> files;
  for (const int across : {1, 2}) {
    for (const int restart : {0, 5}) {
      JpegEncodeOptions options;
      options.chroma_width_divisor = options.chroma_height_divisor = across;
      options.restart_interval = restart;
      files.push_back(MakeJpeg(160, 240, options));
      options.chroma_height_divisor = 1;
      files.push_back(MakeJpeg(160, 240, options));
    }
  }
  EXPECT_GT(ExpectVerdictsWhateverTheRegion(files), static_cast<int>(files.size()));
}

TEST(JpegDecoderTest, EveryCutIsTruncatedOrCorruptAndTheDecoderGoesOn) {
  const std::string file = MakeJpeg(40, 56);
  JpegDecoder decoder;
  const std::string whole = Decode(decoder, file, PixelFormat::kRgb).pixels;
  for (size_t size = 0; size < file.size(); ++size) {
    const Outcome cut = Decode(decoder, file.substr(0, size), PixelFormat::kRgb, {0, 0, 1, 1});
    ASSERT_EQ(cut.verdict, "TRUNCATED_IMAGE") << size;
  }
  EXPECT_EQ(Decode(decoder, file, PixelFormat::kRgb).pixels, whole);
}

TEST(JpegDecoderTest, DamageBelowTheNeededRowsIsNotNoticed) {
  JpegEncodeOptions options;
  options.restart_interval = 15;  // one row of MCUs: damage stays where it is
  std::string file = MakeJpeg(160, 240, options);
  // Swapping two restart intervals' data near the end leaves a structure that is valid, except that
  // a cut-out interval makes the decoder meet a marker too early.
  const size_t seventh = file.rfind("\xFF\xD7");
  const size_t next = file.find("\xFF\xD0", seventh);
  ASSERT_NE(next, std::string::npos);
  file.erase(seventh + 2, (next - seventh) / 2);
  JpegDecoder decoder;
  EXPECT_EQ(Decode(decoder, file, PixelFormat::kRgb, {0, 0, 64, 240}).verdict, "");
  EXPECT_EQ(Decode(decoder, file, PixelFormat::kRgb).verdict, "CORRUPT_IMAGE");
}

TEST(JpegDecoderTest, HugeHeaderIsRefusedBeforeAnythingIsAllocated) {
  std::string file = MakeJpeg(16, 16);
  const size_t frame = file.find("\xFF\xC0");
  file.replace(frame + 5, 4, "\xEA\x60\xEA\x60");  // 60,000 x 60,000
  JpegDecoder decoder;
  const auto size = decoder.Open(file, kMostPixels);
  EXPECT_EQ(Verdict(size.status()), "IMAGE_TOO_LARGE");
  EXPECT_THAT(std::string(size.status().message()), testing::HasSubstr("60000 x 60000"));
}

TEST(JpegDecoderTest, TwelveBitJpegIsUnsupported) {
  std::string file = MakeJpeg(16, 16);
  file[file.find("\xFF\xC0") + 4] = 12;
  JpegDecoder decoder;
  EXPECT_EQ(Decode(decoder, file, PixelFormat::kRgb).verdict, "UNSUPPORTED_IMAGE");
}

}  // namespace
}  // namespace bulkhead
