#include "server/stages/geometry/resize_pass.h"

#include "server/image/geometry/flip.h"
#include "server/image/resize/linear_resize.h"

namespace bulkhead {
namespace {

using Mirror = LinearResizer::Mirror;

}  // namespace

bool ResizePass::TakeBehind(std::unique_ptr<SampleStage>& next) {
  if (normalize_ != nullptr) return normalize_->TakeBehind(next, true);
  if (flip_after_ == nullptr) flip_after_ = TakeAs<RandomFlipStage>(next);
  if (next == nullptr) return true;
  normalize_ = TakeAs<NormalizeStage>(next);
  return normalize_ != nullptr;
}

bool ResizePass::TakeBefore(std::unique_ptr<SampleStage>& previous) {
  flip_before_ = TakeAs<RandomFlipStage>(previous);
  return flip_before_ != nullptr;
}

absl::Status ResizePass::Run(Value& value, ImageSize size, ResizeMethod method,
                             const StageContext& context) const {
  const bool before = flip_before_ != nullptr && flip_before_->Flips(context.key);
  const bool after = flip_after_ != nullptr && flip_after_->Flips(context.key);
  const ImageSize size_before = value.pixels.size();
  if (before) context.Moved(Geometry::FlipColumns(size_before));
  context.Moved(Geometry::Resize(size_before, size));
  if (after) context.Moved(Geometry::FlipColumns(size));
  const Mirror mirror = before ? Mirror::kBefore : after ? Mirror::kAfter : Mirror::kNone;
  // Two flips are rare, so they do not run in the pass.
  if (method == ResizeMethod::kLinear && !(before && after) &&
      context.scratch.resizer.Prepare(value.pixels.size(), value.pixels.channels, size, mirror)) {
    return RunRows(value, size, context);
  }
  return RunByStages(value, size, method, {before, after}, context);
}

absl::Status ResizePass::RunRows(Value& value, ImageSize size, const StageContext& context) const {
  const int channels = value.pixels.channels;
  const size_t row_values = static_cast<size_t>(size.width) * channels;
  const size_t element = normalize_ == nullptr ? 1 : sizeof(float);
  const size_t size_bytes = row_values * size.height * element;
  std::byte* result = context.Result(size_bytes);
  LinearResizer& resizer = context.scratch.resizer;
  if (normalize_ == nullptr) {
    const MutableImageView out =
        ContiguousImage(reinterpret_cast<uint8_t*>(result), size, channels);
    resizer.Run(value.pixels, out, context.target != nullptr);
    value.SetPixels(out);
    return absl::OkStatus();
  }
  resizer.Begin(value.pixels);
  const bool channels_first = normalize_->to_channels_first();
  auto* floats = reinterpret_cast<float*>(result);
  uint8_t* row = context.scratch.row.Resize(row_values);
  for (int y = 0; y < size.height; ++y) {
    resizer.NextRow(row);
    normalize_->normalizer().ApplyToRow({row, 1, size.width, channels, row_values}, y, size.height,
                                        channels_first, floats);
  }
  value.image_size = size;
  value.channels_first = channels_first;
  value.SetElements(v1::DTYPE_FLOAT32, result, size_bytes);
  return absl::OkStatus();
}

absl::Status ResizePass::RunByStages(Value& value, ImageSize size, ResizeMethod method, Flips flips,
                                     const StageContext& context) const {
  if (flips.before) FlipHorizontallyInPlace(value.pixels, context.scratch.row);
  const size_t size_bytes = static_cast<size_t>(size.height) * size.width * value.pixels.channels;
  uint8_t* memory = normalize_ == nullptr ? reinterpret_cast<uint8_t*>(context.Result(size_bytes))
                                          : context.scratch.resized.Resize(size_bytes);
  const MutableImageView out = ContiguousImage(memory, size, value.pixels.channels);
  BULKHEAD_RETURN_IF_ERROR(ResizeImage(value.pixels, method, out));
  value.SetPixels(out);
  if (flips.after) FlipHorizontallyInPlace(value.pixels, context.scratch.row);
  if (normalize_ != nullptr) BULKHEAD_RETURN_IF_ERROR(normalize_->Run(value, context));
  return absl::OkStatus();
}

}  // namespace bulkhead
