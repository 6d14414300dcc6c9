#include "tools/pack/annotations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/base/record_name.h"

namespace bulkhead::tools {
namespace {

// Moves `low` and `high` into [0, end]; whether that took more than rounding.
bool Cut(double end, double rounding, double& low, double& high) {
  const bool cut = low < -rounding || high > end + rounding;
  low = std::clamp(low, 0.0, end);
  high = std::clamp(high, 0.0, end);
  return cut;
}

}  // namespace

std::string Annotations::PlaceOf(const ListedBox& box) const {
  return is_coco ? absl::StrCat(Printable(file), ": annotations[", box.place, "].bbox")
                 : absl::StrCat(Printable(file), ":", box.place);
}

std::string Annotations::PlaceOf(const ListedImage& image) const {
  return is_coco ? absl::StrCat(Printable(file), ": images[", image.place, "].file_name")
                 : absl::StrCat(Printable(file), ":", image.place);
}

void AnnotationProblems::Add(std::string text) {
  if (++count_ <= kMostTold) told_.push_back(std::move(text));
}

absl::Status AnnotationProblems::status() const {
  if (count_ == 0) return absl::OkStatus();
  std::string text = absl::StrJoin(told_, "\n");
  if (count_ > kMostTold) absl::StrAppend(&text, "\n… and ", count_ - kMostTold, " more");
  if (!advice_.empty()) absl::StrAppend(&text, told_.size() > 1 ? "\n" : "; ", advice_);
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid, text,
                   {{"file", file_}});
}

BoxFit FitBox(double width, double height, double rounding, Corners& corners) {
  const bool cut_across = Cut(width, rounding, corners.xmin, corners.xmax);
  const bool cut_down = Cut(height, rounding, corners.ymin, corners.ymax);
  if (corners.xmin >= corners.xmax || corners.ymin >= corners.ymax) return BoxFit::kNothingLeft;
  return cut_across || cut_down ? BoxFit::kCut : BoxFit::kInside;
}

}  // namespace bulkhead::tools
