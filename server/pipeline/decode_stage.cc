#include "server/pipeline/decode_stage.h"

#include <cstring>

#include "absl/strings/string_view.h"
#include "server/spec/stage_signature.h"

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
    case v1::COLOR_RGB:
      return PixelFormat::kRgb;
    default:
      break;
  }
  return spec.channels() == 1   ? PixelFormat::kGray
         : spec.channels() == 4 ? PixelFormat::kRgba
                                : PixelFormat::kRgb;
}

// The decoder's views lie in the thread's own scratch image.
MutableImageView Writable(const ImageView& view) {
  return {const_cast<uint8_t*>(view.data), view.height, view.width, view.channels, view.stride};
}

}  // namespace

DecodeStage::DecodeStage(StagePlace place, const v1::DecodeImage& spec,
                         std::unique_ptr<CropStage> crop, bool fuse)
    : ValueStage(std::move(place)),
      format_(FormatOf(spec)),
      max_pixels_(spec.max_pixels() == 0 ? kDefaultMaxPixels : spec.max_pixels()),
      crop_(std::move(crop)),
      fuse_(fuse) {}

absl::Status DecodeStage::Run(Value& value, const StageContext& context) const {
  const absl::string_view file(reinterpret_cast<const char*>(value.data), value.size_bytes);
  const absl::StatusOr<ImageSize> size = context.decoder.Open(file, max_pixels_);
  if (!size.ok()) return place().Name(size.status());
  Rect rect = WholeImage(*size);
  absl::Status crop_status;
  if (crop_ != nullptr) {
    const absl::StatusOr<Rect> chosen = crop_->ChooseRect(*size, context.key);
    if (chosen.ok() && !fuse_) return RunUnfused(value, *size, *chosen, context);
    if (chosen.ok()) rect = *chosen;
    crop_status = chosen.status();
  }
  const absl::StatusOr<ImageView> pixels =
      context.decoder.Decode(format_, rect, context.scratch.image);
  if (!pixels.ok()) return place().Name(pixels.status());
  BULKHEAD_RETURN_IF_ERROR(crop_status);
  value.SetPixels(Writable(*pixels));
  return crop_ == nullptr ? absl::OkStatus() : crop_->Finish(value, context);
}

absl::Status DecodeStage::RunUnfused(Value& value, ImageSize size, const Rect& rect,
                                     const StageContext& context) const {
  const absl::StatusOr<ImageView> rows =
      context.decoder.Decode(format_, {0, 0, rect.bottom(), size.width}, context.scratch.image);
  if (!rows.ok()) return place().Name(rows.status());
  // An image of the whole size for the crop to cut from; below the rows needed it is black.
  Image whole;
  const MutableImageView image = whole.Reshape(size, rows->channels);
  std::memset(image.data, 0, image.row_bytes() * image.height);
  for (int y = 0; y < rows->height; ++y) {
    std::memcpy(image.row(y), rows->row(y), rows->row_bytes());
  }
  std::swap(whole, context.scratch.image);
  value.SetPixels(context.scratch.image.mutable_view());
  return crop_->Run(value, context);
}

}  // namespace bulkhead
