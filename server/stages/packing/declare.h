#pragma once

#include <string>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/feature_signature.h"

// The batch stages after which a batch's samples are no longer at fixed places: `pack_rows` and
// `multi_scale` (v1::Packing describes the places). Which features they change, for code that
// checks a spec, lays out a batch, or runs it.
namespace bulkhead {

// The features that `stage` packs: those that it names or, of the final `features` of samples, all
// of variable length that are not noted as packed.
std::vector<std::string> RowsPacked(const v1::PackRows& stage,
                                    const std::vector<FeatureSignature>& features);

// The `features` that `stage` scales with its image: masks, and boxes and points in pixels. Some
// may not be outputs, or may be separated from their image.
std::vector<const FeatureSignature*> ScaledAlong(const v1::MultiScale& stage,
                                                 const std::vector<FeatureSignature>& features);

// The packing of an image with this layout whose height and width are those of the batch.
v1::Packing ExtentsPacking(const FeatureSignature& image);

}  // namespace bulkhead
