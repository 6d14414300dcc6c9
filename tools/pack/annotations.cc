#include "tools/pack/annotations.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/base/record_name.h"

namespace bulkhead::tools {

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

}  // namespace bulkhead::tools
