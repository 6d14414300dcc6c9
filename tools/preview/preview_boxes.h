#ifndef BULKHEAD_TOOLS_PREVIEW_PREVIEW_BOXES_H_
#define BULKHEAD_TOOLS_PREVIEW_PREVIEW_BOXES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bulkhead/batch.h"
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
// are the feature called `labels`, where that is not empty. Else they are chosen among the features
// of whole numbers with one number a row and as many rows at most as the boxes: one whose name has
// "label", "class" or "categor" in it, in this order, else the first. With `delivered` only
// features that are outputs count.
std::vector<LabelledBoxes> BoxFeatures(const PipelineSignature& signature, const std::string& image,
                                       const std::string& labels, bool delivered);

// Those of them that `batch` brings, of one sample, on an image of `size`; rows behind
// `<name>_count` and boxes that are empty or not finite are left out. Boxes of a sample with
// another number of labels have none.
std::vector<PreviewBox> BoxesOf(const Batch& batch, uint64_t sample,
                                const std::vector<LabelledBoxes>& features, ImageSize size);

// Whether its elements are whole numbers.
bool IsInteger(const Tensor& tensor);

// The numbers of one sample of a tensor of whole numbers, one a row, those behind `<name>_count`
// left out.
std::vector<std::string> NumbersOf(const Batch& batch, const Tensor& tensor, uint64_t sample);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_PREVIEW_PREVIEW_BOXES_H_
