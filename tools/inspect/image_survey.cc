#include "tools/inspect/image_survey.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/image/codecs/image_decoder.h"
#include "server/spec/stage_signature.h"
#include "tools/inspect/image_header.h"

namespace bulkhead::tools {
namespace {

int64_t Pixels(ImageSize size) { return int64_t{size.height} * size.width; }

std::string SizeText(ImageSize size) { return absl::StrCat(size.width, " x ", size.height); }

}  // namespace

bool ImageSurvey::Take(absl::string_view file, const std::string& name) {
  const ImageFormat format = SniffFormat(file);
  if (format == ImageFormat::kUnknown) return false;
  ++count_;
  ++formats_[FormatName(format)];
  ImageDecoder decoder;
  const auto size = decoder.Open(file, kDefaultMaxPixels);
  if (!size.ok()) {
    AddProblem(name, size.status().message());
    return true;
  }
  if (sizes_++ == 0) smallest_ = largest_ = *size;
  if (Pixels(*size) < Pixels(smallest_)) smallest_ = *size;
  if (Pixels(*size) > Pixels(largest_)) largest_ = *size;
  sum_height_ += size->height;
  sum_width_ += size->width;
  return true;
}

void ImageSurvey::TakeFile(const absl::StatusOr<std::string>& file, const std::string& name) {
  if (!file.ok()) {
    AddProblem(name, file.status().message());
  } else if (!Take(*file, name)) {
    AddProblem(name, file->empty() ? "is empty" : "begins as no image format that is decoded does");
  }
}

void ImageSurvey::AddProblem(const std::string& name, absl::string_view what) {
  if (problems_.size() < kMostProblems) problems_.push_back(absl::StrCat(name, ": ", what));
}

std::string ImageSurvey::Text() const {
  std::string text = absl::StrJoin(formats_, ", ", [&](std::string* out, const auto& format) {
    absl::StrAppend(out, formats_.size() > 1 ? absl::StrCat(format.second, " ") : "", format.first);
  });
  if (sizes_ == 0) return text;
  if (smallest_ == largest_) return absl::StrCat(text, "; ", SizeText(smallest_));
  const ImageSize mean{static_cast<int>(std::lround(sum_height_ / static_cast<double>(sizes_))),
                       static_cast<int>(std::lround(sum_width_ / static_cast<double>(sizes_)))};
  return absl::StrCat(text, "; ", SizeText(mean), " on average, ", SizeText(smallest_), " to ",
                      SizeText(largest_));
}

JsonObject ImageSurvey::Json() const {
  JsonObject json;
  json.Add("images", count_).Add("formats", formats_);
  if (sizes_ > 0) {
    json.Add("mean_width", sum_width_ / static_cast<double>(sizes_))
        .Add("mean_height", sum_height_ / static_cast<double>(sizes_))
        .Add("smallest", SizeText(smallest_))
        .Add("largest", SizeText(largest_));
  }
  return json;
}

}  // namespace bulkhead::tools
