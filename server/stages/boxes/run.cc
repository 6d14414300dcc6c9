#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/cast.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/image/boxes/boxes.h"
#include "server/image/boxes/iou_crop.h"
#include "server/spec/stage_signature.h"
#include "server/stages/running/common_options.h"
#include "server/stages/running/families.h"
#include "server/stages/running/sample_stage.h"
#include "server/stages/running/stage_site.h"

namespace bulkhead {
namespace {

// `convert_boxes`.
class ConvertBoxesStage : public ValueStage {
 public:
  ConvertBoxesStage(const StageSite& site, const v1::ConvertBoxes&)
      : ValueStage(site.place),
        from_(CodingOf(*site.Input().annotation)),
        to_(CodingOf(*site.Output().annotation)) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    std::byte* out = context.Result(value.size_bytes);
    for (size_t at = 0; at + kBoxBytes <= value.size_bytes; at += kBoxBytes) {
      WriteBox(ReadBox(value.data + at, from_, value.canvas), to_, value.canvas, out + at);
    }
    value.data = out;
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  BoxCoding from_;
  BoxCoding to_;
};

// `sanitize_boxes`: drops rows of the first value and of the others. Sample error: ROWS_DIFFER, if
// one of them does not have a row for each box.
class SanitizeBoxesStage : public SampleStage {
 public:
  SanitizeBoxesStage(const StageSite& site, const v1::SanitizeBoxes& spec)
      : SampleStage(site.place), spec_(spec), coding_(CodingOf(*site.Input().annotation)) {}
  absl::Status RunOn(const StageValues& values, const StageContext& context) const override {
    BULKHEAD_RETURN_IF_ERROR(CheckRows(values));
    Value& boxes = values[0];
    const auto count = static_cast<size_t>(boxes.count);
    // The kept rows of all values, one value after the other, and the visible shares.
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

  Effect effect() const override { return Effect::kViews; }

 private:
  // Cuts `box` if the spec wants that, and returns whether it stays. `visible`: the share of it
  // that is left, before and after.
  bool Keeps(Box& box, ImageSize canvas, double& visible) const {
    const double width = canvas.width;
    const double height = canvas.height;
    if (spec_.clamp()) {
      const double unit_x = coding_.relative ? width : 1;
      const double unit_y = coding_.relative ? height : 1;
      const Box inner = {spec_.epsilon() * unit_x, spec_.epsilon() * unit_y,
                         width - spec_.epsilon() * unit_x, height - spec_.epsilon() * unit_y};
      const double whole = box.area();
      // If the edges leave no area, no box is kept.
      box = Clamp(box, inner);
      if (whole > 0) visible *= box.area() / whole;
    } else if (!(box.left >= 0 && box.top >= 0 && box.right <= width && box.bottom <= height)) {
      return false;
    }
    return box.width() >= spec_.min_size() && box.height() >= spec_.min_size() &&
           box.area() >= spec_.min_area() && visible >= spec_.min_visibility();
  }

  absl::Status CheckRows(const StageValues& values) const {
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

  v1::SanitizeBoxes spec_;
  BoxCoding coding_;
};

// `random_iou_crop`: an image and its boxes. The image becomes a view. Boxes whose centre is not in
// the rectangle become empty, at the rectangle's corner; the planner moves all of them. Draws: see
// RandomIouRect.
class IouCropStage : public SampleStage {
 public:
  IouCropStage(const StageSite& site, const v1::RandomIouCrop& spec)
      : SampleStage(site.place), coding_(CodingOf(*site.Input(1).annotation)) {
    bounds_.scale_low = spec.scale(0);
    bounds_.scale_high = spec.scale(1);
    bounds_.ratio_low = spec.ratio(0);
    bounds_.ratio_high = spec.ratio(1);
    bounds_.min_overlaps.assign(spec.min_overlap().begin(), spec.min_overlap().end());
    bounds_.trials = static_cast<int>(spec.trials());
  }

  absl::Status RunOn(const StageValues& values, const StageContext& context) const override {
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

  Effect effect() const override { return Effect::kViews; }

 private:
  IouCropBounds bounds_;
  BoxCoding coding_;
};

// `pad_rows`: gives the feature and, if it has a name, the count. Sample error: OVER_BOUND, for too
// many rows, unless they are dropped.
class PadRowsStage : public SampleStage {
 public:
  PadRowsStage(const StageSite& site, const v1::PadRows& spec)
      : SampleStage(site.place), truncates_(spec.overflow() == v1::OVERFLOW_TRUNCATE) {
    const FeatureSignature& padded = site.Output();
    rows_ = static_cast<size_t>(padded.shape[0]);
    element_bytes_ = ElementBytes(padded.dtype);
    row_bytes_ = element_bytes_;
    for (size_t i = 1; i < padded.shape.size(); ++i) row_bytes_ *= padded.shape[i];
    const double value = spec.value();
    CastElements(v1::DTYPE_FLOAT64, &value, padded.dtype, fill_.data(), 1);
  }

  absl::Status RunOn(const StageValues& values, const StageContext& context) const override {
    Value& value = values[0];
    auto count = static_cast<size_t>(value.count);
    if (count > rows_ && !truncates_) {
      return place().Name(
          SampleError(reason::kOverBound,
                      absl::StrCat("there are ", count, " rows, more than the ", rows_,
                                   " they should be padded to; raise `to`, or set overflow: "
                                   "truncate")));
    }
    count = std::min(count, rows_);
    const size_t own_bytes = count * row_bytes_;
    const size_t size_bytes = rows_ * row_bytes_;
    std::byte* out = context.Result(size_bytes);
    if (own_bytes > 0) std::memcpy(out, value.data, own_bytes);
    for (size_t at = own_bytes; at < size_bytes; at += element_bytes_) {
      std::memcpy(out + at, fill_.data(), element_bytes_);
    }
    value.data = out;
    value.size_bytes = size_bytes;
    value.count = 1;
    value.visible = nullptr;  // of the rows that were there
    if (values.size() == 1) return absl::OkStatus();
    const auto number = static_cast<int64_t>(count);
    auto* written = reinterpret_cast<std::byte*>(context.scratch.row.Resize(sizeof(number)));
    std::memcpy(written, &number, sizeof(number));
    values[1] = Value();
    values[1].SetElements(v1::DTYPE_INT64, written, sizeof(number));
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  size_t rows_;
  size_t element_bytes_;
  size_t row_bytes_;
  std::array<std::byte, 8> fill_{};  // one element
  bool truncates_;
};

}  // namespace

std::vector<NumberedMaker> BoxStages() {
  using Stage = v1::Stage;
  return {
      {Stage::kConvertBoxes, Make<ConvertBoxesStage, &Stage::convert_boxes>},
      {Stage::kSanitizeBoxes, Make<SanitizeBoxesStage, &Stage::sanitize_boxes>},
      {Stage::kRandomIouCrop, Make<IouCropStage, &Stage::random_iou_crop>},
      {Stage::kPadRows, Make<PadRowsStage, &Stage::pad_rows>},
  };
}

}  // namespace bulkhead
