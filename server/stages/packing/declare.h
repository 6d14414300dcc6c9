#ifndef BULKHEAD_SERVER_STAGES_PACKING_DECLARE_H_
#define BULKHEAD_SERVER_STAGES_PACKING_DECLARE_H_

#include <string>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/feature_signature.h"

// The batch stages behind which a batch's samples lie otherwise than one in each place of fixed
// size: `pack_rows` and `multi_scale` (v1::Packing says how). What they work on, for those who
// check a spec, lay a batch out and run it.
namespace bulkhead {

// The features that `stage` packs: those that it names, or, of the `features` that samples have in
// the end, all of variable length that are not noted as packed.
std::vector<std::string> RowsPacked(const v1::PackRows& stage,
                                    const std::vector<FeatureSignature>& features);

// Those of `features` that belong to the image which `stage` scales and do not stay as they are:
// masks, and boxes and points in pixels. Some may be no outputs, or parted from their image.
std::vector<const FeatureSignature*> ScaledAlong(const v1::MultiScale& stage,
                                                 const std::vector<FeatureSignature>& features);

// How an image of this layout lies when its height and width are the batch's own.
v1::Packing ExtentsPacking(const FeatureSignature& image);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_PACKING_DECLARE_H_
