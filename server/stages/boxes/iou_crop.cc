#include "server/stages/boxes/iou_crop.h"

#include <cstring>

#include "server/stages/running/box_coding.h"

namespace bulkhead {

IouCropStage::IouCropStage(const StageSite& site, const v1::RandomIouCrop& spec)
    : SampleStage(site.place), coding_(CodingOf(*site.Input(1).annotation)) {
  bounds_.scale_low = spec.scale(0);
  bounds_.scale_high = spec.scale(1);
  bounds_.ratio_low = spec.ratio(0);
  bounds_.ratio_high = spec.ratio(1);
  bounds_.min_overlaps.assign(spec.min_overlap().begin(), spec.min_overlap().end());
  bounds_.trials = static_cast<int>(spec.trials());
}

absl::Status IouCropStage::RunOn(const StageValues& values, const StageContext& context) const {
  Value& image = values[0];
  Value& rows = values[1];
  const ImageSize size = image.image_size;
  const size_t count = rows.size_bytes / kBoxBytes;
  auto* boxes = reinterpret_cast<Box*>(context.scratch.bytes.Resize(count * sizeof(Box)));
  for (size_t i = 0; i < count; ++i) boxes[i] = ReadBox(rows.data + i * kBoxBytes, coding_, size);
  SampleRandom random = place().Random(context.key);
  const std::optional<Rect> rect = RandomIouRect(size, {boxes, count}, bounds_, random);
  if (!rect.has_value()) return absl::OkStatus();
  auto* out = reinterpret_cast<std::byte*>(context.scratch.row.Resize(rows.size_bytes));
  if (count > 0) std::memcpy(out, rows.data, rows.size_bytes);
  const double left = rect->left;
  const double top = rect->top;
  for (size_t i = 0; i < count; ++i) {
    if (HasMiddleIn(boxes[i], *rect)) continue;
    WriteBox({left, top, left, top}, coding_, size, out + i * kBoxBytes);
    if (rows.visible != nullptr) rows.visible[i] = 0;
  }
  rows.data = out;
  image.SetPixels(image.pixels.Crop(*rect));
  context.Moved(Geometry::Crop(size, *rect));
  return absl::OkStatus();
}

}  // namespace bulkhead
