#include "server/stages/running/box_coding.h"

namespace bulkhead {

BoxCoding CodingOf(const Annotation& annotation) {
  BoxCoding coding;
  coding.relative = annotation.relative;
  if (annotation.format == v1::BOX_FORMAT_XYWH) coding.format = BoxFormat::kXywh;
  if (annotation.format == v1::BOX_FORMAT_CXCYWH) coding.format = BoxFormat::kCxcywh;
  return coding;
}

}  // namespace bulkhead
