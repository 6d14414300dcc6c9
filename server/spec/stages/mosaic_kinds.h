#ifndef BULKHEAD_SERVER_SPEC_STAGES_MOSAIC_KINDS_H_
#define BULKHEAD_SERVER_SPEC_STAGES_MOSAIC_KINDS_H_

#include <string>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"

namespace bulkhead {

// What a mosaic takes from all four samples, of the features before it: its image, then what was
// declared to belong to that image, by name, then its `with`, in their order.
std::vector<std::string> MosaicFeatures(const v1::Mosaic& mosaic,
                                        const std::vector<FeatureSignature>& before);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_STAGES_MOSAIC_KINDS_H_
