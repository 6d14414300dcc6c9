#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/image.h"
#include "server/stages/decode/declare.h"

namespace bulkhead::tools {

// How images are encoded again. A plain value.
struct Recoding {
  enum class Side : uint8_t { kAny, kLonger, kShorter };
  Side side = Side::kAny;  // which one has at most `pixels`
  uint32_t pixels = 0;
  int quality = 0;       // of the JPEG, 1 … 100; 0: as below
  bool upright = false;  // an image that is encoded again is turned as its EXIF says

  // Without a quality only images whose side is longer are encoded again, with this one.
  static constexpr int kDefaultQuality = 95;

  bool any() const { return side != Side::kAny || quality > 0; }
};

// What an image's header says.
struct ImageLook {
  ImageSize size;       // as it is stored
  int orientation = 1;  // orientation.h
};

struct RecodedImage {
  bool is_kept = true;  // as it was; `file` is empty then
  std::string file;
  double scale_x = 1;  // width afterwards / before, of the upright image if it was turned
  double scale_y = 1;
};

// Parses images, whose bytes are untrusted. Not thread-safe.
class ImageWork {
 public:
  virtual ~ImageWork() = default;
  // Sample errors: those of ImageDecoder::Open.
  virtual absl::StatusOr<ImageLook> Look(absl::string_view file) = 0;
  // The image as a JPEG with three channels and 4:2:0. It is only made smaller, each pixel the mean
  // of those that it covers. Sample errors: those of ImageDecoder.
  virtual absl::StatusOr<RecodedImage> Recode(absl::string_view file, const Recoding& recoding) = 0;
};

// One for each thread, which makes it itself.
using MakeImageWorkFn = std::function<absl::StatusOr<std::unique_ptr<ImageWork>>()>;

// In this very process. An image has at most `max_pixels`.
std::unique_ptr<ImageWork> NewLocalImageWork(uint64_t max_pixels = kDefaultMaxPixels);

}  // namespace bulkhead::tools
