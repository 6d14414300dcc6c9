#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bulkhead/batch.h"
#include "tools/preview/preview_boxes.h"

namespace bulkhead::tools {

// The lines below a sample of `images`: its position, and what up to three other outputs say of it.
// Numbers that stand at `boxes` are not said again. The label of a whole image that is the number
// of one of the classes of its output in `classes` has that one's name behind it.
std::vector<std::string> CaptionOf(const Batch& batch, const Tensor& images,
                                   const std::vector<LabelledBoxes>& boxes, uint64_t sample,
                                   const ClassNames& classes = {});

}  // namespace bulkhead::tools
