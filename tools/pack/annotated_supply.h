#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/pack/annotations.h"
#include "tools/pack/image_work.h"
#include "tools/pack/record_supply.h"

namespace bulkhead::tools {

struct AnnotationOptions {
  // The folder that paths start from, or the URL of one; empty: that of the annotation file.
  std::string images;
  // Images for which the file lists no box.
  enum class Negatives { kKeep, kDrop, kApart };
  Negatives negatives = Negatives::kKeep;
  // Boxes that reach beyond their image are cut, and those with nothing left dropped; else they are
  // errors.
  bool cut_boxes = false;
  // Boxes around groups are kept, with the feature `iscrowd`; else dropped.
  bool keep_crowds = false;
  bool upright = false;  // boxes are those of the image as its EXIF turns it
};

// The listed images in their order, or those with boxes as the set `pos` and then the others as
// `neg`. Features: `image`, the file as it is; `boxes`, float32 [n, 4], xmin, ymin, xmax, ymax in
// pixels of that image; `labels`, int64 [n]; `path`; of COCO's files also `image_id`, and `iscrowd`
// [n] where crowds are kept.
//
// Pixels, because that is what COCO and most tables say: the numbers are rounded to float32 and
// nothing else, and what is said about a box - 32 pixels wide - holds for it.
//
// Every image is looked for before this returns. Errors: those of AnnotationProblems, for images
// that are missing, and for boxes that reach beyond their image as far as the file tells its size;
// NOT_FOUND if there is no image. Errors of a record: its image has another size than the file
// says; its box reaches beyond it.
//
// `objects`: for images that are objects; else it may be null.
absl::StatusOr<std::unique_ptr<RecordSupply>> SupplyAnnotated(
    Annotations annotations, const AnnotationOptions& options,
    std::shared_ptr<ObjectFetcher> objects, MakeImageWorkFn make_image_work,
    const FindProgressFn& progress);

}  // namespace bulkhead::tools
