#ifndef BULKHEAD_SERVER_STAGES_RUNNING_BOX_CODING_H_
#define BULKHEAD_SERVER_STAGES_RUNNING_BOX_CODING_H_

#include "server/image/boxes/boxes.h"
#include "server/stages/declaration/annotation.h"

namespace bulkhead {

// How declared boxes are written.
BoxCoding CodingOf(const Annotation& annotation);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_RUNNING_BOX_CODING_H_
