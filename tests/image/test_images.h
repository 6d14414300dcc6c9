#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "server/base/random.h"
#include "server/image/codecs/encode.h"
#include "server/image/image.h"

namespace bulkhead {

// Smooth gradients with some noise, so that codecs have something to do in every block.
inline Image MakePicture(int height, int width, int channels, uint64_t seed = 1) {
  SampleRandom random(seed, 0, 0, 0);
  Image image;
  const MutableImageView view = image.Reshape({height, width}, channels);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const int smooth = (x * (3 + c) + y * (5 - c) + 40 * ((x / 9 + y / 7) % 3)) % 230;
        view.row(y)[x * channels + c] = static_cast<uint8_t>(smooth + random.NextBelow(24));
      }
    }
  }
  return image;
}

inline std::string MakeJpeg(int height, int width, JpegEncodeOptions options = {},
                            int channels = 3) {
  const Image picture = MakePicture(height, width, channels);
  return EncodeJpeg(picture.view(), options).value();
}

// A JPEG file that asks to be turned.
inline std::string Oriented(std::string jpeg, int orientation) {
  std::string exif(
      "\xFF\xE1\x00\x22"
      "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0?\0\0\0\0\0\0",
      36);
  exif[29] = static_cast<char>(orientation);
  return jpeg.insert(2, exif);
}

// All pixels, row by row.
inline std::string PixelsOf(const ImageView& image) {
  std::string pixels;
  for (int y = 0; y < image.height; ++y) {
    pixels.append(reinterpret_cast<const char*>(image.row(y)), image.row_bytes());
  }
  return pixels;
}

// What a test over photos says when it is skipped.
inline constexpr char kNoPhotos[] =
    "set BULKHEAD_PHOTOS to a folder with nothing but photos (JPEG) for this test";

// The bytes of the files in the folder that $BULKHEAD_PHOTOS names, every `step`th; none without.
inline std::vector<std::string> ReadPhotos(size_t step) {
  std::vector<std::string> photos;
  const char* folder = std::getenv("BULKHEAD_PHOTOS");
  if (folder == nullptr) return photos;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (size_t i = 0; i < paths.size(); i += step) {
    std::ifstream in(paths[i], std::ios::binary);
    photos.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return photos;
}

}  // namespace bulkhead
