#include "tests/image/jpeg/jpeg_files.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
// jpeglib.h needs size_t and FILE to be declared before it.
#include <jpeglib.h>

#include "server/base/error.h"
#include "server/image/codecs/jpeg_error.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMaxPixels = 4'000'000;

Image MakeContent(const JpegRecipe& recipe, int channels) {
  if (recipe.content == JpegRecipe::Content::kSmooth) {
    return MakePicture(recipe.height, recipe.width, channels, recipe.seed);
  }
  SampleRandom random(recipe.seed, 0, 0, 0);
  Image image;
  const MutableImageView view = image.Reshape({recipe.height, recipe.width}, channels);
  const auto flat = static_cast<uint8_t>(random.NextBelow(256));
  for (int y = 0; y < view.height; ++y) {
    for (size_t x = 0; x < view.row_bytes(); ++x) {
      const auto noise = static_cast<uint8_t>(random.NextBelow(256));
      view.row(y)[x] = recipe.content == JpegRecipe::Content::kNoise  ? noise
                       : recipe.content == JpegRecipe::Content::kFlat ? flat
                       : (noise % 2 + y + x / 5) % 2 != 0             ? 255
                                                                      : 0;
    }
  }
  return image;
}

void Write(jpeg_compress_struct& info, const JpegRecipe& recipe, const Image& image,
           unsigned char** memory, unsigned long* size) {
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, memory, size);
  info.image_width = recipe.width;
  info.image_height = recipe.height;
  info.input_components = recipe.gray ? 1 : 3;
  info.in_color_space = recipe.gray ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, recipe.quality, TRUE);
  info.comp_info[0].h_samp_factor = recipe.h;
  info.comp_info[0].v_samp_factor = recipe.v;
  info.restart_interval = recipe.restart_interval;
  info.optimize_coding = recipe.optimize ? TRUE : FALSE;
  if (recipe.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.view().row(static_cast<int>(info.next_scanline)));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
}

// One damage, somewhere; most often in the entropy-coded data.
void DamageOnce(std::string& file, SampleRandom& random) {
  const size_t scan = std::min(file.find("\xFF\xDA"), file.size() - 1);
  const bool in_header = random.NextBelow(4) == 0;
  const size_t at =
      in_header ? random.NextBelow(scan + 1) : scan + random.NextBelow(file.size() - scan);
  const size_t length = std::min<size_t>(1 + random.NextBelow(20), file.size() - at);
  const auto any = static_cast<char>(random.NextBelow(256));
  switch (random.NextBelow(10)) {
    case 0:
      file.resize(std::max<size_t>(at, 2));
      break;
    case 1:
      file.erase(at, length);
      break;
    case 2:
      file.insert(at, file.substr(at, length));
      break;
    case 3:
      std::swap_ranges(file.begin() + at, file.begin() + at + length / 2,
                       file.begin() + at + length - length / 2);
      break;
    case 4:
      file[at] = any;
      break;
    case 5: {
      static constexpr unsigned char kMarkers[] = {0x00, 0xFF, 0xD0, 0xD1, 0xD7, 0xD9,
                                                   0xDA, 0xC4, 0xFE, 0x01, 0xDC, 0xDD};
      file.insert(at, {'\xFF', static_cast<char>(kMarkers[random.NextBelow(sizeof(kMarkers))])});
      break;
    }
    case 6: {
      // A quantizer, or several.
      const size_t table = file.find("\xFF\xDB");
      if (table == std::string::npos || table + 70 > file.size()) break;
      const uint64_t count = 1 + random.NextBelow(64);
      for (uint64_t i = 0; i < count; ++i) file[table + 5 + random.NextBelow(64)] = any;
      break;
    }
    default:
      file[at] ^= static_cast<char>(1 << random.NextBelow(8));
      break;
  }
}

}  // namespace

std::string MakeJpegFile(const JpegRecipe& recipe) {
  const Image image = MakeContent(recipe, recipe.gray ? 1 : 3);
  jpeg_compress_struct info{};
  JpegErrorManager errors;
  info.err = errors.Install(/*fail_on_warnings=*/false);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  const bool written = errors.Run([&] { Write(info, recipe, image, &memory, &size); });
  std::string file;
  if (written) file.assign(reinterpret_cast<char*>(memory), size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return file;
}

JpegRecipe PhotoRecipe(int restart_interval) {
  JpegRecipe recipe;
  recipe.height = 300;
  recipe.width = 500;
  recipe.h = recipe.v = 2;
  recipe.restart_interval = restart_interval;
  return recipe;
}

JpegRecipe RandomRecipe(SampleRandom& random, int max_extent) {
  static constexpr int kSamplings[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {2, 4}};
  static constexpr int kQualities[] = {1, 10, 50, 75, 90, 95, 98, 100};
  JpegRecipe recipe;
  recipe.height = 1 + static_cast<int>(random.NextBelow(max_extent));
  recipe.width = 1 + static_cast<int>(random.NextBelow(max_extent));
  recipe.gray = random.NextBelow(8) == 0;
  const int* sampling = kSamplings[random.NextBelow(random.NextBelow(8) == 0 ? 6 : 5)];
  if (!recipe.gray) {
    recipe.h = sampling[0];
    recipe.v = sampling[1];
  }
  recipe.quality = kQualities[random.NextBelow(8)];
  if (random.NextBelow(3) == 0) recipe.restart_interval = 1 + static_cast<int>(random.NextBelow(9));
  recipe.optimize = random.NextBelow(2) == 0;
  recipe.content = static_cast<JpegRecipe::Content>(random.NextBelow(4));
  recipe.seed = random.Next64();
  return recipe;
}

Rect RandomRectIn(ImageSize size, SampleRandom& random) {
  Rect rect;
  rect.height = 1 + static_cast<int>(random.NextBelow(size.height));
  rect.width = 1 + static_cast<int>(random.NextBelow(size.width));
  rect.top = static_cast<int>(random.NextBelow(size.height - rect.height + 1));
  rect.left = static_cast<int>(random.NextBelow(size.width - rect.width + 1));
  return rect;
}

std::string DamageJpeg(std::string file, SampleRandom& random) {
  const uint64_t count = 1 + random.NextBelow(4);
  for (uint64_t i = 0; i < count && file.size() > 4; ++i) DamageOnce(file, random);
  return file;
}

namespace {

JpegOutcome DecodeOpened(JpegDecoder& decoder, const absl::StatusOr<ImageSize>& size,
                         PixelFormat format, const Rect& share) {
  const auto fail = [](const absl::Status& status) {
    return JpegOutcome{GetErrorInfo(status)->reason, std::string(status.message()), ""};
  };
  if (!size.ok()) return fail(size.status());
  const auto scaled = [](int value, int extent) {
    return static_cast<int>(static_cast<int64_t>(value) * extent / kWholeShare.height);
  };
  Rect rect = {scaled(share.top, size->height), scaled(share.left, size->width), 0, 0};
  rect.height = std::max(scaled(share.bottom(), size->height) - rect.top, 1);
  rect.width = std::max(scaled(share.right(), size->width) - rect.left, 1);
  Image image;
  const auto pixels = decoder.Decode(format, rect, image);
  if (!pixels.ok()) return fail(pixels.status());
  return {"", "", PixelsOf(*pixels)};
}

}  // namespace

JpegOutcome DecodeShareOf(JpegDecoder& decoder, absl::string_view file, PixelFormat format,
                          const Rect& share) {
  return DecodeOpened(decoder, decoder.Open(file, kMaxPixels), format, share);
}

JpegOutcome DecodeShareOf(JpegDecoder& decoder, FileBytes& file, PixelFormat format,
                          const Rect& share) {
  if (const auto known = decoder.OpenUnread(file, kMaxPixels)) {
    return DecodeOpened(decoder, known->size, format, share);
  }
  return DecodeOpened(decoder, decoder.Open(*file.Get(), kMaxPixels, {}, &file), format, share);
}

}  // namespace bulkhead
