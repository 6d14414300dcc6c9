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

// The features that a spec declares as boxes of `image` and that are so in the end.
std::vector<FeatureSignature> BoxFeatures(const PipelineSignature& signature,
                                          const std::string& image);

// Those of them that `batch` brings, of one sample, on an image of `size`; rows behind
// `<name>_count` and boxes that are empty or not finite are left out.
std::vector<PreviewBox> BoxesOf(const Batch& batch, uint64_t sample,
                                const std::vector<FeatureSignature>& features, ImageSize size);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_PREVIEW_PREVIEW_BOXES_H_
