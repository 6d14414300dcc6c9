#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/batch.h"
#include "server/base/class_names.h"
#include "server/image/image.h"
#include "server/spec/signature.h"
#include "tools/preview/preview_sheet.h"

namespace bulkhead::tools {

// Boxes of an image, and the feature whose numbers are their labels; empty: there is none.
struct LabelledBoxes {
  FeatureSignature boxes;
  std::string labels;
};

// What a caller may say of labels: the feature's name, or that none is wanted.
inline constexpr char kNoLabels[] = "none";

// The features that a spec declares as boxes of `image` and that are so in the end. Their labels
// are chosen among the features of whole numbers with one number a row and as many rows at most as
// the boxes: the one called `labels`, where that is not empty; else one whose name has "label",
// "class" or "categor" in it, in this order, else the first. With `delivered` only features that
// are outputs count.
std::vector<LabelledBoxes> BoxFeatures(const PipelineSignature& signature, const std::string& image,
                                       const std::string& labels, bool delivered);

// Whether the feature `labels`, where a caller asked for one, can be labels of boxes of `image`
// (empty: of any): with `delivered` in the end, else also behind an earlier stage.
// INVALID_ARGUMENT: no, with advice.
absl::Status CheckLabels(const PipelineSignature& signature, const std::string& image,
                         const std::string& labels, bool delivered);

// Those of them that `batch` brings, of one sample, on an image of `size`; rows behind
// `<name>_count` and boxes that are empty or not finite are left out. Boxes of a sample with
// another number of labels have none. A label that is the number of one of the classes of its
// output in `classes` is that one's name.
std::vector<PreviewBox> BoxesOf(const Batch& batch, uint64_t sample,
                                const std::vector<LabelledBoxes>& features, ImageSize size,
                                const ClassNames& classes = {});

// The name of class `number` of `output`, where `classes` has one; else the number.
std::string ClassName(const std::string& number, const std::string& output,
                      const ClassNames& classes);

// Whether an output of that name is most probably a class.
bool IsCalledLabel(const std::string& name);

// Whether the numbers of the output `name` are labels of boxes of that sample.
bool StandAtBoxes(const Batch& batch, uint64_t sample, const std::vector<LabelledBoxes>& features,
                  absl::string_view name);

// Element `element` of a tensor of whole numbers, digit by digit.
std::string WholeNumberAt(const Tensor& tensor, uint64_t element);

// The numbers of one sample of a tensor of whole numbers, one a row, those behind `<name>_count`
// left out.
std::vector<std::string> NumbersOf(const Batch& batch, const Tensor& tensor, uint64_t sample);

}  // namespace bulkhead::tools
