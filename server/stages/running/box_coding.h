#pragma once

#include "server/image/boxes/boxes.h"
#include "server/stages/declaration/annotation.h"

namespace bulkhead {

// How declared boxes are written.
BoxCoding CodingOf(const Annotation& annotation);

}  // namespace bulkhead
