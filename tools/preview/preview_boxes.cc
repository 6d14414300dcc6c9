#include "tools/preview/preview_boxes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/common/tensor_stats.h"

namespace bulkhead::tools {
namespace {

constexpr uint64_t kNumbers = 4;

PreviewBox Box(const std::array<double, kNumbers>& numbers, const Annotation& annotation,
               ImageSize size) {
  const double across = annotation.relative ? size.width : 1;
  const double down = annotation.relative ? size.height : 1;
  const double x = numbers[0] * across;
  const double y = numbers[1] * down;
  const double a = numbers[2] * across;
  const double b = numbers[3] * down;
  if (annotation.format == v1::BOX_FORMAT_XYWH) return {x, y, x + a, y + b};
  if (annotation.format == v1::BOX_FORMAT_CXCYWH) {
    return {x - a / 2, y - b / 2, x + a / 2, y + b / 2};
  }
  return {x, y, a, b};
}

// Padded rows are the boxes that they were; those that were added are empty.
bool StillBelongs(const std::string& lost_at) {
  return lost_at.empty() || absl::EndsWith(lost_at, ".pad_rows");
}

}  // namespace

std::vector<FeatureSignature> BoxFeatures(const PipelineSignature& signature,
                                          const std::string& image) {
  const SourceSignature& source = signature.sources[0];
  std::vector<FeatureSignature> found;
  for (const FeatureSignature& feature : source.FeaturesBefore(source.features_after.size())) {
    const auto& annotation = feature.annotation;
    if (annotation.has_value() && annotation->kind == Annotation::Kind::kBoxes &&
        annotation->image == image && StillBelongs(annotation->lost_at)) {
      found.push_back(feature);
    }
  }
  return found;
}

std::vector<PreviewBox> BoxesOf(const Batch& batch, uint64_t sample,
                                const std::vector<FeatureSignature>& features, ImageSize size) {
  std::vector<PreviewBox> boxes;
  for (const FeatureSignature& feature : features) {
    const Tensor* const tensor = batch.Find(feature.name);
    if (tensor == nullptr || ElementsOfRow(*tensor) % kNumbers != 0) continue;
    const uint64_t first = FirstElementOf(*tensor, sample);
    uint64_t rows = (FirstElementOf(*tensor, sample + 1) - first) / kNumbers;
    const Tensor* const count = batch.Find(absl::StrCat(feature.name, "_count"));
    if (count != nullptr) rows = std::min(rows, static_cast<uint64_t>(ElementAt(*count, sample)));
    for (uint64_t row = 0; row < rows; ++row) {
      std::array<double, kNumbers> numbers;
      for (uint64_t i = 0; i < kNumbers; ++i) {
        numbers[i] = ElementAt(*tensor, first + row * kNumbers + i);
      }
      const PreviewBox box = Box(numbers, *feature.annotation, size);
      const bool is_finite = std::isfinite(box.left) && std::isfinite(box.top) &&
                             std::isfinite(box.right) && std::isfinite(box.bottom);
      if (is_finite && box.right > box.left && box.bottom > box.top) boxes.push_back(box);
    }
  }
  return boxes;
}

}  // namespace bulkhead::tools
