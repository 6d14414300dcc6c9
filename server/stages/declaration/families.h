#pragma once

#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {

// All kinds of stages, by family. Each family's folder has its declare.cc and its running stages.
StageKinds DecodeKinds();      // encoded bytes to images
StageKinds GeometryKinds();    // resizes, crops, flips, pads
StageKinds ColorKinds();       // values of pixels
StageKinds WarpKinds();        // affine, perspective, elastic; augments with these
StageKinds AnnotationKinds();  // boxes, points and masks of an image
StageKinds BoxKinds();         // changes of boxes and of numbers of rows
StageKinds MosaicKinds();      // several samples in one image
StageKinds NumberKinds();      // element types, layouts, labels
StageKinds UserKinds();        // the user's own code
StageKinds FaultKinds();       // misbehaviour on purpose
StageKinds CacheKinds();       // results kept for later epochs

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
