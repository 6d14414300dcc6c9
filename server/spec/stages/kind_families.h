#ifndef BULKHEAD_SERVER_SPEC_STAGES_KIND_FAMILIES_H_
#define BULKHEAD_SERVER_SPEC_STAGES_KIND_FAMILIES_H_

#include <vector>

#include "server/spec/stages/stage_kind.h"

namespace bulkhead {

// All kinds of stages, by family; each has its file here and its stages in server/pipeline.
std::vector<NumberedKind> DecodeKinds();      // encoded bytes to images
std::vector<NumberedKind> GeometryKinds();    // which pixels, and where they go
std::vector<NumberedKind> ColorKinds();       // what pixels become
std::vector<NumberedKind> WarpKinds();        // images bent, and augments that do that, too
std::vector<NumberedKind> AnnotationKinds();  // what belongs to an image
std::vector<NumberedKind> BoxKinds();         // boxes, and rows of varying number
std::vector<NumberedKind> MosaicKinds();      // several samples in one
std::vector<NumberedKind> NumberKinds();      // element types, layouts, labels
std::vector<NumberedKind> UserKinds();        // the user's own code
std::vector<NumberedKind> FaultKinds();       // misbehaviour on purpose
std::vector<NumberedKind> CacheKinds();       // what is kept from epoch to epoch

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_STAGES_KIND_FAMILIES_H_
