#ifndef BULKHEAD_SERVER_SPEC_PACKING_STAGES_H_
#define BULKHEAD_SERVER_SPEC_PACKING_STAGES_H_

#include <string>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/spec/spec_error.h"

// The batch stages behind which a batch's samples lie otherwise than one in each place of fixed
// size: `pack_rows` and `multi_scale` (v1::Packing says how). What they work on, for those who
// check a spec, lay a batch out and run it.
namespace bulkhead {

// Fill defaults in; add what is wrong with the stage by itself to `problems`.
void NormalizePackRows(const v1::PackRows& stage, const std::string& path, SpecProblems& problems);
void NormalizeMultiScale(v1::MultiScale& stage, const std::string& path, SpecProblems& problems);

// The features that batch stage `index`, a pack_rows, packs: those that it names, or, of the
// `features` that samples have in the end, all of variable length that no stage before it packs.
std::vector<std::string> RowsPackedAt(const v1::PipelineSpec& spec, int index,
                                      const std::vector<FeatureSignature>& features);

// Those of `features` that belong to the image which `stage` scales and do not stay as they are:
// masks, and boxes and points in pixels. Some may be no outputs, or parted from their image.
std::vector<const FeatureSignature*> ScaledAlong(const v1::MultiScale& stage,
                                                 const std::vector<FeatureSignature>& features);

// How an image of this layout lies when its height and width are the batch's own.
v1::Packing ExtentsPacking(const FeatureSignature& image);

// Notes in `features`, which samples have in the end, how the stages of the spec pack them.
void MarkPacked(const v1::PipelineSpec& spec, std::vector<FeatureSignature>& features);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_PACKING_STAGES_H_
