#ifndef BULKHEAD_SERVER_STAGES_DECLARATION_FAMILIES_H_
#define BULKHEAD_SERVER_STAGES_DECLARATION_FAMILIES_H_

#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {

// All kinds of stages, by family; each has its declare.cc and its running stages in its folder.
StageKinds DecodeKinds();      // encoded bytes to images
StageKinds GeometryKinds();    // which pixels, and where they go
StageKinds ColorKinds();       // what pixels become
StageKinds WarpKinds();        // images bent, and augments that do that, too
StageKinds AnnotationKinds();  // what belongs to an image
StageKinds BoxKinds();         // boxes, and rows of varying number
StageKinds MosaicKinds();      // several samples in one
StageKinds NumberKinds();      // element types, layouts, labels
StageKinds UserKinds();        // the user's own code
StageKinds FaultKinds();       // misbehaviour on purpose
StageKinds CacheKinds();       // what is kept from epoch to epoch

struct StageFamily {
  const char* name;  // of its folder
  StageKinds (*kinds)();
  StageKinds operator()() const { return kinds(); }
};
inline constexpr StageFamily kStageFamilies[] = {{"decode", DecodeKinds},
                                                 {"geometry", GeometryKinds},
                                                 {"color", ColorKinds},
                                                 {"warp", WarpKinds},
                                                 {"mosaic", MosaicKinds},
                                                 {"boxes", BoxKinds},
                                                 {"annotations", AnnotationKinds},
                                                 {"numbers", NumberKinds},
                                                 {"user", UserKinds},
                                                 {"fault", FaultKinds},
                                                 {"cache", CacheKinds}};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_DECLARATION_FAMILIES_H_
