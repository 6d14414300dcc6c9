#include "tools/preview/preview_caption.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/element_type.h"
#include "tools/common/tensor_image.h"
#include "tools/common/tensor_stats.h"
#include "tools/common/tensor_type.h"

namespace bulkhead::tools {
namespace {

constexpr uint64_t kCaptions = 3;  // of other outputs

// "labels 3 0 17".
std::string ToldNumbers(const Batch& batch, const Tensor& tensor, uint64_t sample) {
  const std::vector<std::string> numbers = NumbersOf(batch, tensor, sample);
  return absl::StrCat(tensor.name, numbers.empty() ? "" : " ", absl::StrJoin(numbers, " "));
}

// " cat" for the number of a class; empty for what is none.
std::string Named(const Tensor& tensor, const std::string& number, const ClassNames& classes) {
  const std::string output(tensor.name);
  if (!IsCalledLabel(output)) return "";
  const std::string name = ClassName(number, output, classes);
  return name == number ? "" : " " + name;
}

// What one sample of an output that is no image says: a number or several whole ones, a text, the
// class of a one_hot; empty for what does not fit a line.
std::string Told(const Batch& batch, const Tensor& tensor, uint64_t sample,
                 const ClassNames& classes) {
  if (tensor.packing == Packing::kOffsets) return "";
  const bool is_whole = IsInteger(DTypeOf(tensor));
  if (tensor.packing == Packing::kRows) {
    return tensor.shape.size() == 1 && is_whole ? ToldNumbers(batch, tensor, sample) : "";
  }
  if (tensor.dtype == ElementType::kBytes) {
    const char* text = static_cast<const char*>(tensor.data) + sample * tensor.element_bytes;
    std::string whole(text, strnlen(text, tensor.element_bytes));
    return whole.substr(whole.rfind('/') + 1);
  }
  const uint64_t elements = ElementsOfRow(tensor);
  if (elements == 1) {
    if (!is_whole) return absl::StrFormat("%s %g", tensor.name, ElementAt(tensor, sample));
    const std::string number = WholeNumberAt(tensor, sample);
    return absl::StrCat(tensor.name, " ", number, Named(tensor, number, classes));
  }
  if (tensor.shape.size() != 2 || elements < 2) return "";
  // Scores of classes are no whole numbers.
  if (is_whole) return ToldNumbers(batch, tensor, sample);
  uint64_t best = 0;
  for (uint64_t i = 1; i < elements; ++i) {
    const uint64_t at = sample * elements;
    if (ElementAt(tensor, at + i) > ElementAt(tensor, at + best)) best = i;
  }
  return absl::StrFormat("%s %d%s (%.3g)", tensor.name, best,
                         Named(tensor, absl::StrCat(best), classes),
                         ElementAt(tensor, sample * elements + best));
}

}  // namespace

std::vector<std::string> CaptionOf(const Batch& batch, const Tensor& images,
                                   const std::vector<LabelledBoxes>& boxes, uint64_t sample,
                                   const ClassNames& classes) {
  std::vector<std::string> lines = {absl::StrCat("position ", batch.first_position() + sample)};
  if (sample >= batch.valid_count()) lines = {"padding"};
  for (const Tensor& tensor : batch.tensors()) {
    if (&tensor == &images || LooksLikeImages(tensor) || lines.size() > kCaptions) continue;
    if (StandAtBoxes(batch, sample, boxes, tensor.name)) continue;
    std::string told = Told(batch, tensor, sample, classes);
    if (!told.empty()) lines.push_back(std::move(told));
  }
  return lines;
}

}  // namespace bulkhead::tools
