#include <cstring>

#include "absl/strings/str_cat.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/error.h"
#include "server/image/boxes/boxes.h"
#include "server/spec/stage_signature.h"
#include "server/stages/boxes/iou_crop.h"
#include "server/stages/boxes/pad_rows.h"
#include "server/stages/running/box_coding.h"
#include "server/stages/running/families.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {
namespace {

// `convert_boxes`.
class ConvertBoxesStage : public ValueStage {
 public:
  ConvertBoxesStage(const StageSite& site, const v1::ConvertBoxes&);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  BoxCoding from_;
  BoxCoding to_;
};

// `sanitize_boxes`: drops rows of the first value and of the others. Sample error: ROWS_DIFFER, if
// one of them does not have a row for each box.
class SanitizeBoxesStage : public SampleStage {
 public:
  SanitizeBoxesStage(const StageSite& site, const v1::SanitizeBoxes& spec);
  absl::Status RunOn(const StageValues& values, const StageContext& context) const override;
  Effect effect() const override { return Effect::kViews; }

 private:
  // Cuts `box` if the spec wants that, and returns whether it stays. `visible`: the share of it
  // that is left, before and after.
  bool Keeps(Box& box, ImageSize canvas, double& visible) const;
  absl::Status CheckRows(const StageValues& values) const;

  v1::SanitizeBoxes spec_;
  BoxCoding coding_;
};

ConvertBoxesStage::ConvertBoxesStage(const StageSite& site, const v1::ConvertBoxes&)
    : ValueStage(site.place),
      from_(CodingOf(*site.Input().annotation)),
      to_(CodingOf(*site.Output().annotation)) {}

absl::Status ConvertBoxesStage::Run(Value& value, const StageContext& context) const {
  std::byte* out = context.Result(value.size_bytes);
  for (size_t at = 0; at + kBoxBytes <= value.size_bytes; at += kBoxBytes) {
    WriteBox(ReadBox(value.data + at, from_, value.canvas), to_, value.canvas, out + at);
  }
  value.data = out;
  return absl::OkStatus();
}

SanitizeBoxesStage::SanitizeBoxesStage(const StageSite& site, const v1::SanitizeBoxes& spec)
    : SampleStage(site.place), spec_(spec), coding_(CodingOf(*site.Input().annotation)) {}

bool SanitizeBoxesStage::Keeps(Box& box, ImageSize canvas, double& visible) const {
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
