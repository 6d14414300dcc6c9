#include "tools/preview/preview_boxes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "tools/common/tensor_stats.h"
#include "tools/common/tensor_type.h"

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

// Boxes of `image`; where that is empty, of any.
bool AreBoxesOf(const FeatureSignature& feature, const std::string& image) {
  const auto& annotation = feature.annotation;
  return annotation.has_value() && annotation->kind == Annotation::Kind::kBoxes &&
         (image.empty() || annotation->image == image) && StillBelongs(annotation->lost_at);
}

// One whole number for each row of `boxes`, by all that is known before any data is read.
bool MayLabel(const FeatureSignature& feature, const FeatureSignature& boxes) {
  return feature.kind == FeatureSignature::Kind::kTensor && IsInteger(feature.dtype) &&
         feature.shape.size() == 1 && feature.shape[0] == boxes.shape[0] &&
         feature.variable == boxes.variable;
}

constexpr int kLabelWords = 3;

// The lower, the more likely labels are called so; kLabelWords: not by their name.
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
  bool counted = false;   // the batch says how many there are
};

Rows RowsOf(const Batch& batch, const Tensor& tensor, uint64_t sample, uint64_t numbers) {
  Rows rows;
  rows.first_element = FirstElementOf(tensor, sample);
  rows.capacity = (FirstElementOf(tensor, sample + 1) - rows.first_element) / numbers;
  rows.count = rows.capacity;
  rows.counted = tensor.packing == Packing::kRows;
  const Tensor* const count = batch.Find(absl::StrCat(tensor.name, "_count"));
  if (count != nullptr) {
    rows.count = std::min(rows.count, static_cast<uint64_t>(ElementAt(*count, sample)));
    rows.counted = true;
  }
  return rows;
}

// The boxes among a batch's tensors; null where they cannot be drawn.
const Tensor* FindBoxes(const Batch& batch, const LabelledBoxes& labelled) {
  const Tensor* const tensor = batch.Find(labelled.boxes.name);
  return tensor == nullptr || ElementsOfRow(*tensor) % kNumbers != 0 ? nullptr : tensor;
}

// One text for each of the boxes' rows; absent where they do not belong together.
std::optional<std::vector<std::string>> LabelsOf(const Batch& batch, uint64_t sample,
                                                 const std::string& name, const Rows& boxes) {
  const Tensor* const tensor = name.empty() ? nullptr : batch.Find(name);
  if (tensor == nullptr || !IsInteger(DTypeOf(*tensor))) return std::nullopt;
  const Rows rows = RowsOf(batch, *tensor, sample, 1);
  // Labels without a count of their own are as padded as their boxes.
  const bool padded_alike = !rows.counted && rows.capacity == boxes.capacity;
  if (rows.count != boxes.count && !padded_alike) return std::nullopt;
  std::vector<std::string> labels;
  for (uint64_t row = 0; row < boxes.count; ++row) {
    labels.push_back(WholeNumberAt(*tensor, rows.first_element + row));
  }
  return labels;
}

// `asked`: as of BoxFeatures.
std::string LabelsFor(const PipelineSignature& signature,
                      const std::vector<FeatureSignature>& features, const FeatureSignature& boxes,
                      const std::string& asked, bool delivered) {
  const FeatureSignature* best = nullptr;
  for (const FeatureSignature& feature : features) {
    if (!asked.empty() && feature.name != asked) continue;
    if (!MayLabel(feature, boxes) || (delivered && !IsDelivered(signature, feature.name))) continue;
    if (best == nullptr || NameRank(feature.name) < NameRank(best->name)) best = &feature;
  }
  return best == nullptr ? "" : best->name;
}

}  // namespace

std::string ClassName(const std::string& number, const std::string& output,
                      const ClassNames& classes) {
  const auto names = classes.find(output);
  size_t index = 0;
  const bool is_named =
      names != classes.end() && absl::SimpleAtoi(number, &index) && index < names->second.size();
  return is_named ? names->second[index] : number;
}

bool IsCalledLabel(const std::string& name) { return NameRank(name) < kLabelWords; }

std::string WholeNumberAt(const Tensor& tensor, uint64_t element) {
  const char* const at = static_cast<const char*>(tensor.data) + element * tensor.element_bytes;
  if (tensor.dtype == ElementType::kUint64) return absl::StrCat(LoadLittle<uint64_t>(at));
  if (tensor.dtype == ElementType::kInt64) return absl::StrCat(LoadLittle<int64_t>(at));
  return absl::StrCat(static_cast<int64_t>(ElementAt(tensor, element)));
}

std::vector<std::string> NumbersOf(const Batch& batch, const Tensor& tensor, uint64_t sample) {
  const Rows rows = RowsOf(batch, tensor, sample, 1);
  std::vector<std::string> numbers;
  for (uint64_t i = 0; i < rows.count; ++i) {
    numbers.push_back(WholeNumberAt(tensor, rows.first_element + i));
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
    if (!AreBoxesOf(feature, image)) continue;
    LabelledBoxes& boxes = found.emplace_back(LabelledBoxes{feature, {}});
    if (labels == kNoLabels) continue;
    boxes.labels = LabelsFor(signature, features, feature, labels, delivered);
  }
  return found;
}

absl::Status CheckLabels(const PipelineSignature& signature, const std::string& image,
                         const std::string& labels, bool delivered) {
  if (labels.empty() || labels == kNoLabels) return absl::OkStatus();
  bool is_whole = false;
  std::string boxes;
  const SourceSignature& source = signature.sources[0];
  const size_t last = source.features_after.size();
  for (size_t i = delivered ? last : 0; i <= last; ++i) {
    const std::vector<FeatureSignature>& features = source.FeaturesBefore(i);
    for (const FeatureSignature& feature : features) {
      const bool is_output = !delivered || IsDelivered(signature, feature.name);
      if (feature.name == labels && is_output) is_whole |= IsInteger(feature.dtype);
      if (!is_output || !AreBoxesOf(feature, image)) continue;
      if (!LabelsFor(signature, features, feature, labels, delivered).empty()) {
        return absl::OkStatus();
      }
      boxes = absl::StrCat("`", feature.name, "` (", feature.shape[0], " at most)");
    }
  }
  std::string problem = "no integer output has that name";
  if (is_whole && boxes.empty()) {
    problem =
        "there are no boxes to draw it at; declare boxes with the stage `boxes`, and list them in "
        "outputs";
  } else if (is_whole) {
    problem = absl::StrCat("it is not one number for each box of ", boxes,
                           "; give it shape [-1] and the same bound, or omit --labels: outputs for "
                           "the whole image are printed below it");
  }
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                   absl::StrCat("--labels ", labels, ": ", problem));
}

std::vector<PreviewBox> BoxesOf(const Batch& batch, uint64_t sample,
                                const std::vector<LabelledBoxes>& features, ImageSize size,
                                const ClassNames& classes) {
  std::vector<PreviewBox> boxes;
  for (const LabelledBoxes& labelled : features) {
    const FeatureSignature& feature = labelled.boxes;
    const Tensor* const tensor = FindBoxes(batch, labelled);
    if (tensor == nullptr) continue;
    const Rows rows = RowsOf(batch, *tensor, sample, kNumbers);
    const std::vector<std::string> labels =
        LabelsOf(batch, sample, labelled.labels, rows).value_or(std::vector<std::string>{});
    for (uint64_t row = 0; row < rows.count; ++row) {
      std::array<double, kNumbers> numbers;
      for (uint64_t i = 0; i < kNumbers; ++i) {
        numbers[i] = ElementAt(*tensor, rows.first_element + row * kNumbers + i);
      }
      PreviewBox box = Box(numbers, *feature.annotation, size);
      const bool is_finite = std::isfinite(box.left) && std::isfinite(box.top) &&
                             std::isfinite(box.right) && std::isfinite(box.bottom);
      if (!is_finite || box.right <= box.left || box.bottom <= box.top) continue;
      if (row < labels.size()) box.label = ClassName(labels[row], labelled.labels, classes);
      boxes.push_back(std::move(box));
    }
  }
  return boxes;
}

bool StandAtBoxes(const Batch& batch, uint64_t sample, const std::vector<LabelledBoxes>& features,
                  absl::string_view name) {
  return std::any_of(features.begin(), features.end(), [&](const LabelledBoxes& labelled) {
    const Tensor* const boxes = FindBoxes(batch, labelled);
    if (boxes == nullptr || labelled.labels != name) return false;
    const Rows rows = RowsOf(batch, *boxes, sample, kNumbers);
    return LabelsOf(batch, sample, labelled.labels, rows).has_value();
  });
}

}  // namespace bulkhead::tools
