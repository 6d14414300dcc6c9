#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/error.h"
#include "server/image/codecs/decode_options.h"
#include "server/image/geometry/orientation.h"
#include "server/image/pixel_format.h"
#include "server/spec/stage_signature.h"
#include "server/stages/geometry/crop.h"
#include "server/stages/running/families.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {
namespace {

PixelFormat FormatOf(const v1::DecodeImage& spec) {
  switch (spec.color()) {
    case v1::COLOR_BGR:
      return PixelFormat::kBgr;
    case v1::COLOR_GRAY:
      return PixelFormat::kGray;
    case v1::COLOR_RGBA:
      return PixelFormat::kRgba;
    default:
      return PixelFormat::kRgb;
  }
}

DecodeOptions OptionsOf(const v1::DecodeImage& spec) {
  DecodeOptions options;
  options.accept_truncated = spec.truncated().accept();
  options.fancy_upsampling = spec.fancy_upsampling();
  options.dct = spec.dct() == v1::DCT_METHOD_IFAST ? DctMethod::kIfast : DctMethod::kIslow;
  options.scale = static_cast<int>(spec.scale());
  return options;
}

absl::StatusOr<ImageSize> Open(const Value& value, uint64_t max_pixels,
                               const DecodeOptions& options, ImageDecoder& decoder) {
  if (value.unread != nullptr) return decoder.Open(*value.unread, max_pixels, options);
  return decoder.Open({reinterpret_cast<const char*>(value.data), value.size_bytes}, max_pixels,
                      options);
}

MutableImageView Mutable(const ImageView& view) {
  return {const_cast<uint8_t*>(view.data), view.height, view.width, view.channels, view.stride};
}

// Pixels in the thread's scratch, turned if necessary.
MutableImageView Upright(const ImageView& view, int orientation, StageScratch& scratch) {
  if (orientation == kStoredUpright) return Mutable(view);
  const MutableImageView upright =
      scratch.upright.Reshape(UprightSize(view.size(), orientation), view.channels);
  CopyUpright(view, orientation, upright);
  return upright;
}

// `decode_image`, together with the crop directly after it, if there is one: the crop
// decides which rows are needed, and thereby which damage counts (docs/semantics.md, "Errors"). A
// crop that fails needs all rows, so that damage is reported before the crop's error. A crop
// chooses its rectangle in the upright image; its rows are those of the stored one.
class DecodeStage : public ValueStage {
 public:
  DecodeStage(StagePlace place, const v1::DecodeImage& spec)
      : ValueStage(std::move(place)),
        format_(FormatOf(spec)),
        max_pixels_(spec.max_pixels()),
        options_(OptionsOf(spec)),
        exif_orientation_(spec.exif_orientation()),
        deep_(spec.keep_16_bit()) {}
  // Takes a crop, and what the crop takes. With `fuse` only the crop's rectangle is decoded;
  // without it, for tests, all columns of the rows from the top to the rectangle's last one, which
  // is slower and gives the same bytes and verdicts.
  bool TakeBehind(std::unique_ptr<SampleStage>& next, bool fuse) override {
    if (crop_ != nullptr) return crop_->TakeBehind(next, fuse);
    crop_ = TakeAs<CropStage>(next);
    fuse_ = fuse;
    return crop_ != nullptr;
  }

  absl::Status Run(Value& value, const StageContext& context) const override {
    if (absl::Status status; RunShared(value, context, status)) return status;
    BULKHEAD_ASSIGN_OR_RETURN(const ImageSize stored,
                              place().Name(Open(value, max_pixels_, options_, context.decoder)));
    const int orientation = exif_orientation_ ? context.decoder.Orientation() : kStoredUpright;
    if (deep_) return RunDeep(value, orientation, context);
    const ImageSize size = UprightSize(stored, orientation);
    Rect rect = WholeImage(size);
    absl::Status crop_status;
    if (crop_ != nullptr) {
      const absl::StatusOr<Rect> chosen = crop_->ChooseRect(size, context.key);
      const bool joined = fuse_ && !context.whole_images;
      if (chosen.ok() && !joined) return RunUnfused(value, stored, orientation, *chosen, context);
      if (chosen.ok()) {
        rect = *chosen;
        context.Moved(Geometry::Crop(size, rect));
      }
      crop_status = chosen.status();
    }
    // An image that is turned takes its memory twice.
    const uint64_t turned = orientation == kStoredUpright ? 0
                                                          : static_cast<uint64_t>(rect.height) *
                                                                rect.width * ChannelCount(format_);
    BULKHEAD_ASSIGN_OR_RETURN(
        const ImageView pixels,
        place().Name(context.decoder.Decode(format_, StoredRect(rect, stored, orientation),
                                            context.scratch.image, turned)));
    BULKHEAD_RETURN_IF_ERROR(crop_status);
    value.SetPixels(Upright(pixels, orientation, context.scratch));
    return crop_ == nullptr ? absl::OkStatus() : crop_->Finish(value, context);
  }

  bool TakesUnread() const override { return !deep_; }
  Effect effect() const override { return crop_ == nullptr ? Effect::kViews : crop_->effect(); }

 private:
  // Uses the image as it was decoded for the sample before, or decodes it whole for the next one.
  // False: the image is in no other sample, or cannot be decoded whole, and nothing was done.
  bool RunShared(Value& value, const StageContext& context, absl::Status& status) const {
    if (value.frame == 0 || context.frames == nullptr || deep_) return false;
    Image& memory = context.scratch.image;
    ImageView frame = context.frames->Find(place().key, value.frame);
    bool is_kept = frame.data != nullptr;
    if (!is_kept) {
      if (!context.frames->keeps()) return false;
      const absl::StatusOr<ImageView> whole = DecodeWhole(value, context);
      if (!whole.ok()) return false;
      frame = *whole;
      is_kept = context.frames->Keep(place().key, value.frame, frame, memory);
    }
    value.SetPixels(Mutable(frame));
    status = crop_ == nullptr ? absl::OkStatus() : crop_->Run(value, context);
    // Later stages may change their pixels, but not those that are kept.
    if (is_kept && effect() == Effect::kViews) {
      const MutableImageView copy = memory.Reshape(value.pixels.size(), value.pixels.channels);
      for (int y = 0; y < copy.height; ++y) {
        std::memcpy(copy.row(y), value.pixels.row(y), copy.row_bytes());
      }
      value.SetPixels(copy);
    }
    return true;
  }

  // The whole image, upright, in scratch.image.
  absl::StatusOr<ImageView> DecodeWhole(const Value& value, const StageContext& context) const {
    StageScratch& scratch = context.scratch;
    BULKHEAD_ASSIGN_OR_RETURN(const ImageSize stored,
                              Open(value, max_pixels_, options_, context.decoder));
    const int orientation = exif_orientation_ ? context.decoder.Orientation() : kStoredUpright;
    BULKHEAD_ASSIGN_OR_RETURN(const ImageView pixels,
                              context.decoder.Decode(format_, WholeImage(stored), scratch.image));
    if (orientation == kStoredUpright) return pixels;
    const ImageView upright = Upright(pixels, orientation, scratch);
    std::swap(scratch.image, scratch.upright);
    return upright;
  }

  absl::Status RunUnfused(Value& value, ImageSize stored, int orientation, const Rect& rect,
                          const StageContext& context) const {
    const int bottom =
        context.whole_images ? stored.height : StoredRect(rect, stored, orientation).bottom();
    const absl::StatusOr<ImageView> rows =
        context.decoder.Decode(format_, {0, 0, bottom, stored.width}, context.scratch.image);
    if (!rows.ok()) return place().Name(rows.status());
    // An image of the whole size for the crop to cut from; below the rows needed it is black.
    Image whole;
    const MutableImageView image = whole.Reshape(stored, rows->channels);
    std::memset(image.data, 0, image.row_bytes() * image.height);
    for (int y = 0; y < rows->height; ++y) {
      std::memcpy(image.row(y), rows->row(y), rows->row_bytes());
    }
    std::swap(whole, context.scratch.image);
    value.SetPixels(Upright(context.scratch.image.view(), orientation, context.scratch));
    return crop_->Run(value, context);
  }

  // The whole image as uint16.
  absl::Status RunDeep(Value& value, int orientation, const StageContext& context) const {
    const absl::StatusOr<ImageView> deep =
        context.decoder.DecodeDeep(format_, context.scratch.image, context.scratch.deep);
    if (!deep.ok()) return place().Name(deep.status());
    const MutableImageView upright = Upright(*deep, orientation, context.scratch);
    value.is_image = true;
    value.image_size = upright.size();
    value.channels = ChannelCount(format_);
    value.channels_first = false;
    value.SetElements(v1::DTYPE_UINT16, reinterpret_cast<std::byte*>(upright.data),
                      upright.row_bytes() * upright.height);
    return absl::OkStatus();
  }

  PixelFormat format_;
  uint64_t max_pixels_;
  DecodeOptions options_;
  bool exif_orientation_;
  bool deep_;
  std::unique_ptr<CropStage> crop_;  // null: the whole image
  bool fuse_ = true;
};

}  // namespace

std::vector<NumberedMaker> DecodeStages() {
  return {{v1::Stage::kDecodeImage, Make<DecodeStage, &v1::Stage::decode_image>}};
}

}  // namespace bulkhead
