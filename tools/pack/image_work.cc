#include "tools/pack/image_work.h"

#include <algorithm>

#include "server/base/error.h"
#include "server/image/codecs/encode.h"
#include "server/image/codecs/image_decoder.h"
#include "server/image/geometry/orientation.h"
#include "server/image/resize/resize.h"
#include "server/image/resize/resize_size.h"
#include "server/spec/stage_signature.h"

namespace bulkhead::tools {
namespace {

constexpr int kChannels = 3;

// The size of an image of `size` that is encoded again.
absl::StatusOr<ImageSize> SizeAfter(ImageSize size, const Recoding& recoding) {
  const int longer = std::max(size.height, size.width);
  const int shorter = std::min(size.height, size.width);
  const bool is_longer = recoding.side == Recoding::Side::kLonger;
  const int64_t side = is_longer ? longer : shorter;
  if (recoding.side == Recoding::Side::kAny || side <= recoding.pixels) return size;
  ResizeRule rule;
  rule.by = is_longer ? ResizeRule::By::kLongerSide : ResizeRule::By::kShorterSide;
  rule.side = recoding.pixels;
  rule.round = true;
  rule.max_pixels = static_cast<uint64_t>(size.height) * static_cast<uint64_t>(size.width);
  return ResizedSize(size, rule);
}

class LocalImageWork final : public ImageWork {
 public:
  explicit LocalImageWork(uint64_t max_pixels) : max_pixels_(max_pixels) {}

  absl::StatusOr<ImageLook> Look(absl::string_view file) override {
    BULKHEAD_ASSIGN_OR_RETURN(const ImageSize size, decoder_.Open(file, max_pixels_));
    return ImageLook{size, decoder_.Orientation()};
  }

  absl::StatusOr<RecodedImage> Recode(absl::string_view file, const Recoding& recoding) override {
    BULKHEAD_ASSIGN_OR_RETURN(const ImageLook look, Look(file));
    const int orientation = recoding.upright ? look.orientation : kStoredUpright;
    const ImageSize before = UprightSize(look.size, orientation);
    BULKHEAD_ASSIGN_OR_RETURN(const ImageSize after, SizeAfter(before, recoding));
    if (after == before && recoding.quality == 0) return RecodedImage{};
    BULKHEAD_ASSIGN_OR_RETURN(ImageView pixels,
                              decoder_.Decode(PixelFormat::kRgb, WholeImage(look.size), decoded_));
    if (orientation != kStoredUpright) {
      const MutableImageView upright = upright_.Reshape(before, kChannels);
      CopyUpright(pixels, orientation, upright);
      pixels = upright;
    }
    if (after != before) {
      const MutableImageView smaller = resized_.Reshape(after, kChannels);
      BULKHEAD_RETURN_IF_ERROR(ResizeImage(pixels, ResizeMethod::kArea, smaller));
      pixels = smaller;
    }
    JpegEncodeOptions options;
    options.quality = recoding.quality > 0 ? recoding.quality : Recoding::kDefaultQuality;
    BULKHEAD_ASSIGN_OR_RETURN(std::string jpeg, EncodeJpeg(pixels, options));
    return RecodedImage{false, std::move(jpeg), static_cast<double>(after.width) / before.width,
                        static_cast<double>(after.height) / before.height};
  }

 private:
  const uint64_t max_pixels_;
  ImageDecoder decoder_;
  Image decoded_;
  Image upright_;
  Image resized_;
};

}  // namespace

std::unique_ptr<ImageWork> NewLocalImageWork(uint64_t max_pixels) {
  return std::make_unique<LocalImageWork>(max_pixels);
}

}  // namespace bulkhead::tools
