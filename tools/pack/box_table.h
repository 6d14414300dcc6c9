#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/pack/annotations.h"
#include "tools/pack/class_list.h"

namespace bulkhead::tools {

// Whether the first line of a text file has the titles of boxes: `xmin` or `x` among its columns.
bool IsBoxTable(const std::string& path);

// LIST_INVALID for a text file whose lines look like boxes - a path, four numbers and at most one
// value more - without titles above, which no one can tell from an image list with four labels; and
// for any other without such titles if `means_boxes`.
absl::Status RefuseUntitledBoxes(const std::string& path, bool means_boxes);

// Reads a table of boxes: a text file whose first line has titles, and a box on each other line.
// Columns are separated as those of an image list (list_line.h); empty lines and those that begin
// with # are passed over. Titles, in any order and any case:
//
//   path    (or filename, file_name, image): an image; the boxes of one need not stand together
//   label   (or class): a number from 0 on, or the name of a class; the first one decides
//   xmin, ymin, xmax, ymax   or   x, y, w, h (or width, height)
//
// A line with a path alone is an image without boxes. Images come in the order of their first
// lines. Names become the numbers of their sorted order, or those that they have in `classes`.
// Errors: LIST_INVALID, those of AnnotationProblems with file and line; those of opening the file.
absl::StatusOr<Annotations> ReadBoxTable(const std::string& path, bool relative,
                                         const ClassList& classes);

}  // namespace bulkhead::tools
