#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tools/pack/annotations.h"
#include "tools/pack/class_list.h"

namespace bulkhead::tools {

// Reads object detections in COCO's format (cocodataset.org, "Data format"): `images` with id,
// file_name, width and height; `annotations` with image_id, category_id, bbox and perhaps iscrowd;
// `categories` with id and name. Other fields are passed over. Labels are the categories' numbers
// in the order of their ids, or those of their names in `classes`; the side file categories.csv
// says which category is which label.
//
// The text is read once and no tree is built of it: memory holds its bytes, and about 130 more for
// each box. Errors: LIST_INVALID with the place and offset where it is not JSON; those of
// AnnotationProblems, with JSON paths; RESOURCE_EXHAUSTED for more than kMostCocoBytes; those of
// ReadFileOf.
absl::StatusOr<Annotations> ReadCocoJson(const std::string& path, const ClassList& classes);

inline constexpr uint64_t kMostCocoBytes = uint64_t{4} << 30;

}  // namespace bulkhead::tools
