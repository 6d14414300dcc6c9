#pragma once

#include <string>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/feature_signature.h"

namespace bulkhead {

// The features that a mosaic takes from all four samples: its image, then the features that are
// declared to belong to that image, by name, then those of `with`, in their order.
std::vector<std::string> MosaicFeatures(const v1::Mosaic& mosaic,
                                        const std::vector<FeatureSignature>& before);

}  // namespace bulkhead
