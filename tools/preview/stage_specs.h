#pragma once

#include <string>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead::tools {

// A spec that ends behind one of the stages of another, so that one can look at what comes out
// there. Random stages draw what they draw in the whole spec: their numbers hang on their place.
struct StageSpec {
  std::string title;  // "decode_image"
  v1::PipelineSpec spec;
  std::string image;   // what is drawn: of a list of images the first
  int stage = 0;       // its number in the whole spec
  bool boxed = false;  // it ends in a letterbox that brings images of any size to one
};

// One for each stage of `spec`, which is normalized, behind which the image `name` is another than
// before: the stages before decoding and those for other features are left out. Images of any size
// are brought to `side` × `side`, with bars. Declared boxes come with them, and their labels,
// chosen as BoxFeatures does (`labels`: as there). As long as it is a list of images, its first
// one stands for all.
std::vector<StageSpec> CutBehindStages(const v1::PipelineSpec& spec, const std::string& name,
                                       int side, const std::string& labels = "");

}  // namespace bulkhead::tools
