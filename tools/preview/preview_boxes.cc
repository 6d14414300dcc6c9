#include "tools/preview/preview_boxes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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
  if (annotation.format == v1::BOX_FORMAT_XYWH) return {x, y, x + a, y + b, {}};
  if (annotation.format == v1::BOX_FORMAT_CXCYWH) {
    return {x - a / 2, y - b / 2, x + a / 2, y + b / 2, {}};
  }
  return {x, y, a, b, {}};
}

// Padded rows are the boxes that they were; those that were added are empty.
bool StillBelongs(const std::string& lost_at) {
  return lost_at.empty() || absl::EndsWith(lost_at, ".pad_rows");
}

bool IsIntegerType(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_UINT8:
    case v1::DTYPE_INT8:
    case v1::DTYPE_UINT16:
    case v1::DTYPE_INT16:
    case v1::DTYPE_UINT32:
    case v1::DTYPE_INT32:
    case v1::DTYPE_UINT64:
    case v1::DTYPE_INT64:
      return true;
    default:
      return false;
  }
}

// One whole number for each row of `boxes`, by all that is known before any data is read.
bool MayLabel(const FeatureSignature& feature, const FeatureSignature& boxes) {
  return feature.kind == FeatureSignature::Kind::kTensor && IsIntegerType(feature.dtype) &&
         feature.shape.size() == 1 && feature.shape[0] == boxes.shape[0] &&
         feature.variable == boxes.variable;
}

// The lower, the more likely labels are called so.
int NameRank(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  int rank = 0;
  for (const char* word : {"label", "class", "categor"}) {
    if (absl::StrContains(lower, word)) return rank;
    ++rank;
  }
  return rank;
}

bool IsDelivered(const PipelineSignature& signature, const std::string& name) {
  const auto& tensors = signature.schema.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& tensor) { return tensor.name() == name; });
}

// The rows of a sample.
struct Rows {
  uint64_t first_element = 0;
  uint64_t count = 0;
  uint64_t capacity = 0;  // of which the others are padding
};

Rows RowsOf(const Batch& batch, const Tensor& tensor, uint64_t sample, uint64_t numbers) {
  Rows rows;
  rows.first_element = FirstElementOf(tensor, sample);
  rows.capacity = (FirstElementOf(tensor, sample + 1) - rows.first_element) / numbers;
  rows.count = rows.capacity;
  const Tensor* const count = batch.Find(absl::StrCat(tensor.name, "_count"));
  if (count != nullptr) {
    rows.count = std::min(rows.count, static_cast<uint64_t>(ElementAt(*count, sample)));
  }
  return rows;
}

std::string NumberAt(const Tensor& tensor, uint64_t element) {
  return absl::StrFormat("%.0f", ElementAt(tensor, element));
}

// One text for each of the boxes' rows; none where they do not belong together.
std::vector<std::string> LabelsOf(const Batch& batch, uint64_t sample, const std::string& name,
                                  const Rows& boxes) {
  const Tensor* const tensor = name.empty() ? nullptr : batch.Find(name);
  if (tensor == nullptr || !IsInteger(*tensor)) return {};
  const Rows rows = RowsOf(batch, *tensor, sample, 1);
  // Labels without a count of their own are as padded as their boxes.
  const bool padded_alike = rows.count == rows.capacity && rows.capacity == boxes.capacity;
  if (rows.count != boxes.count && !padded_alike) return {};
  std::vector<std::string> labels;
  for (uint64_t row = 0; row < boxes.count; ++row) {
    labels.push_back(NumberAt(*tensor, rows.first_element + row));
  }
  return labels;
}

std::string LabelsFor(const PipelineSignature& signature,
                      const std::vector<FeatureSignature>& features, const FeatureSignature& boxes,
                      bool delivered) {
  const FeatureSignature* best = nullptr;
  for (const FeatureSignature& feature : features) {
    if (!MayLabel(feature, boxes) || (delivered && !IsDelivered(signature, feature.name))) continue;
    if (best == nullptr || NameRank(feature.name) < NameRank(best->name)) best = &feature;
  }
  return best == nullptr ? "" : best->name;
}

}  // namespace

bool IsInteger(const Tensor& tensor) {
  switch (tensor.dtype) {
    case ElementType::kUint8:
    case ElementType::kInt8:
    case ElementType::kUint16:
    case ElementType::kInt16:
    case ElementType::kUint32:
    case ElementType::kInt32:
    case ElementType::kUint64:
    case ElementType::kInt64:
      return true;
    default:
      return false;
  }
}

std::vector<std::string> NumbersOf(const Batch& batch, const Tensor& tensor, uint64_t sample) {
  const Rows rows = RowsOf(batch, tensor, sample, 1);
  std::vector<std::string> numbers;
  for (uint64_t i = 0; i < rows.count; ++i) {
    numbers.push_back(NumberAt(tensor, rows.first_element + i));
  }
  return numbers;
}

std::vector<LabelledBoxes> BoxFeatures(const PipelineSignature& signature, const std::string& image,
                                       const std::string& labels, bool delivered) {
  const SourceSignature& source = signature.sources[0];
  const std::vector<FeatureSignature>& features =
      source.FeaturesBefore(source.features_after.size());
  std::vector<LabelledBoxes> found;
  for (const FeatureSignature& feature : features) {
    const auto& annotation = feature.annotation;
    if (!annotation.has_value() || annotation->kind != Annotation::Kind::kBoxes ||
        annotation->image != image || !StillBelongs(annotation->lost_at)) {
      continue;
    }
    LabelledBoxes& boxes = found.emplace_back(LabelledBoxes{feature, labels});
    if (labels == kNoLabels) boxes.labels.clear();
    if (labels.empty()) boxes.labels = LabelsFor(signature, features, feature, delivered);
  }
  return found;
}

std::vector<PreviewBox> BoxesOf(const Batch& batch, uint64_t sample,
                                const std::vector<LabelledBoxes>& features, ImageSize size) {
  std::vector<PreviewBox> boxes;
  for (const LabelledBoxes& labelled : features) {
    const FeatureSignature& feature = labelled.boxes;
    const Tensor* const tensor = batch.Find(feature.name);
    if (tensor == nullptr || ElementsOfRow(*tensor) % kNumbers != 0) continue;
    const Rows rows = RowsOf(batch, *tensor, sample, kNumbers);
    const std::vector<std::string> labels = LabelsOf(batch, sample, labelled.labels, rows);
    for (uint64_t row = 0; row < rows.count; ++row) {
      std::array<double, kNumbers> numbers;
      for (uint64_t i = 0; i < kNumbers; ++i) {
        numbers[i] = ElementAt(*tensor, rows.first_element + row * kNumbers + i);
      }
      PreviewBox box = Box(numbers, *feature.annotation, size);
      const bool is_finite = std::isfinite(box.left) && std::isfinite(box.top) &&
                             std::isfinite(box.right) && std::isfinite(box.bottom);
      if (!is_finite || box.right <= box.left || box.bottom <= box.top) continue;
      if (row < labels.size()) box.label = labels[row];
      boxes.push_back(std::move(box));
    }
  }
  return boxes;
}

}  // namespace bulkhead::tools
