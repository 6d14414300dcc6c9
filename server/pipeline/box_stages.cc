#include "server/pipeline/box_stages.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/pipeline/follow.h"
#include "server/pipeline/iou_crop_stage.h"
#include "server/pipeline/pad_rows_stage.h"
#include "server/pipeline/stage_factory.h"
#include "server/spec/stage_signature.h"

namespace bulkhead {
namespace {

float NumberAt(const std::byte* data, size_t i) {
  float number;
  std::memcpy(&number, data + i * sizeof(float), sizeof(float));
  return number;
}

const FeatureSignature& Named(const std::vector<FeatureSignature>& features,
                              const std::string& name) {
  return *std::find_if(features.begin(), features.end(),
                       [&](const FeatureSignature& feature) { return feature.name == name; });
}

}  // namespace

DeclarationStage::DeclarationStage(StagePlace place, const Annotation& annotation,
                                   size_t numbers_per_row)
    : SampleStage(std::move(place)), annotation_(annotation), numbers_per_row_(numbers_per_row) {}

absl::Status DeclarationStage::CheckNumbers(const Value& value) const {
  const size_t count = value.size_bytes / sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    const float number = NumberAt(value.data, i);
    if (std::isfinite(number)) continue;
    return place().Name(
        SampleError(reason::kBadCoordinates,
                    absl::StrCat("row ", i / numbers_per_row_, " has the coordinate ", number,
                                 " (number ", i % numbers_per_row_,
                                 " of the row, counted from 0); correct or remove the record")));
  }
  return absl::OkStatus();
}

absl::Status DeclarationStage::RunOn(const StageValues& values, const StageContext& context) const {
  Value& value = values[0];
  const Value& image = values[1];
  const bool decoded = image.form != Value::Form::kEncoded;
  value.canvas = decoded ? image.image_size : ImageSize{};
  if (annotation_.kind == Annotation::Kind::kMask) {
    if (!decoded || value.image_size == image.image_size) return absl::OkStatus();
    return place().Name(
        SampleError(reason::kImageSizesDiffer,
                    absl::StrCat("the mask has ", value.image_size.height, " x ",
                                 value.image_size.width, " pixels (height x width), but its image ",
                                 image.image_size.height, " x ", image.image_size.width)));
  }
  BULKHEAD_RETURN_IF_ERROR(CheckNumbers(value));
  value.visible = nullptr;
  if (annotation_.kind == Annotation::Kind::kBoxes) {
    const size_t count = value.size_bytes / kBoxBytes;
    value.visible = reinterpret_cast<float*>(context.scratch.row.Resize(count * sizeof(float)));
    std::fill(value.visible, value.visible + count, 1.0f);
  }
  return absl::OkStatus();
}

ConvertBoxesStage::ConvertBoxesStage(StagePlace place, const BoxCoding& from, const BoxCoding& to)
    : ValueStage(std::move(place)), from_(from), to_(to) {}

absl::Status ConvertBoxesStage::Run(Value& value, const StageContext& context) const {
  std::byte* out = context.Result(value.size_bytes);
  for (size_t at = 0; at + kBoxBytes <= value.size_bytes; at += kBoxBytes) {
    WriteBox(ReadBox(value.data + at, from_, value.canvas), to_, value.canvas, out + at);
  }
  value.data = out;
  return absl::OkStatus();
}

SanitizeBoxesStage::SanitizeBoxesStage(StagePlace place, const v1::SanitizeBoxes& spec,
                                       const BoxCoding& coding)
    : SampleStage(std::move(place)), spec_(spec), coding_(coding) {}

bool SanitizeBoxesStage::Keeps(Box& box, ImageSize canvas, double& visible) const {
  const double width = canvas.width;
  const double height = canvas.height;
  if (spec_.clamp()) {
    const double unit_x = coding_.relative ? width : 1;
    const double unit_y = coding_.relative ? height : 1;
    const Box inner = {spec_.epsilon() * unit_x, spec_.epsilon() * unit_y,
                       width - spec_.epsilon() * unit_x, height - spec_.epsilon() * unit_y};
    const double whole = box.area();
    // With edges that leave nothing, nothing is kept.
    box = Clamp(box, inner);
    if (whole > 0) visible *= box.area() / whole;
  } else if (!(box.left >= 0 && box.top >= 0 && box.right <= width && box.bottom <= height)) {
    return false;
  }
  return box.width() >= spec_.min_size() && box.height() >= spec_.min_size() &&
         box.area() >= spec_.min_area() && visible >= spec_.min_visibility();
}

absl::Status SanitizeBoxesStage::CheckRows(const StageValues& values) const {
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i].count == values[0].count) continue;
    return place().Name(
        SampleError(reason::kRowsDiffer,
                    absl::StrCat("there are ", values[0].count, " boxes, but `",
                                 spec_.with(static_cast<int>(i) - 1), "` has ", values[i].count,
                                 " rows; it must have one for each box")));
  }
  return absl::OkStatus();
}

absl::Status SanitizeBoxesStage::RunOn(const StageValues& values,
                                       const StageContext& context) const {
  BULKHEAD_RETURN_IF_ERROR(CheckRows(values));
  Value& boxes = values[0];
  const auto count = static_cast<size_t>(boxes.count);
  // What is kept of all values, one behind the other, and of the visible shares.
  size_t total_bytes = 0;
  for (size_t i = 0; i < values.size(); ++i) total_bytes += values[i].size_bytes;
  auto* out = reinterpret_cast<std::byte*>(context.scratch.bytes.Resize(total_bytes));
  auto* visible = reinterpret_cast<float*>(context.scratch.row.Resize(count * sizeof(float)));
  std::byte* begin[1 + kMaxSanitizedWith];
  size_t row_bytes[1 + kMaxSanitizedWith];
  for (size_t i = 0; i < values.size(); ++i) {
    begin[i] = out;
    row_bytes[i] = count == 0 ? 0 : values[i].size_bytes / count;
    out += values[i].size_bytes;
  }
  size_t kept = 0;
  for (size_t row = 0; row < count; ++row) {
    Box box = ReadBox(boxes.data + row * kBoxBytes, coding_, boxes.canvas);
    double share = boxes.visible == nullptr ? 1 : boxes.visible[row];
    if (!Keeps(box, boxes.canvas, share)) continue;
    for (size_t i = 0; i < values.size(); ++i) {
      std::memcpy(begin[i] + kept * row_bytes[i], values[i].data + row * row_bytes[i],
                  row_bytes[i]);
    }
    if (spec_.clamp()) WriteBox(box, coding_, boxes.canvas, begin[0] + kept * kBoxBytes);
    visible[kept++] = static_cast<float>(share);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].data = begin[i];
    values[i].size_bytes = kept * row_bytes[i];
    values[i].count = static_cast<int64_t>(kept);
  }
  boxes.visible = visible;
  return absl::OkStatus();
}

std::unique_ptr<SampleStage> MakeBoxStage(const StageSite& site) {
  const v1::Stage& stage = site.stage;
  const std::vector<std::string> reads = StageReads(stage);
  switch (stage.stage_case()) {
    case v1::Stage::kBoxes:
    case v1::Stage::kKeypoints:
    case v1::Stage::kMask: {
      const FeatureSignature& feature = Named(site.after, reads[0]);
      size_t numbers = 1;
      for (size_t i = 1; i < feature.shape.size(); ++i) numbers *= feature.shape[i];
      return std::make_unique<DeclarationStage>(site.place, *feature.annotation, numbers);
    }
    case v1::Stage::kConvertBoxes:
      return std::make_unique<ConvertBoxesStage>(site.place,
                                                 CodingOf(*Named(site.before, reads[0]).annotation),
                                                 CodingOf(*Named(site.after, reads[0]).annotation));
    case v1::Stage::kSanitizeBoxes:
      return std::make_unique<SanitizeBoxesStage>(
          site.place, stage.sanitize_boxes(), CodingOf(*Named(site.before, reads[0]).annotation));
    case v1::Stage::kRandomIouCrop:
      return std::make_unique<IouCropStage>(site.place, stage.random_iou_crop(),
                                            CodingOf(*Named(site.before, reads[1]).annotation));
    case v1::Stage::kPadRows: {
      const FeatureSignature& feature = Named(site.after, reads[0]);
      return std::make_unique<PadRowsStage>(site.place, stage.pad_rows(), feature);
    }
    default:
      return nullptr;
  }
}

}  // namespace bulkhead
