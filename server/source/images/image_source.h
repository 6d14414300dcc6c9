#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/source/images/image_rows.h"
#include "server/source/source.h"

namespace bulkhead {

// OpenSource for image lists and image folders: a record is an index row and the image files that
// it names. An image whose size is not what the index says is FILE_CHANGED. `path` is the first
// image's.
//
// With `frames` record i is the window that begins with row i: the images of that row and of those
// that follow, labels and `path` of the first; the selection says which rows begin one. Its
// identity is its clip, the folder of its first image, so that a split keeps clips whole. A context
// reads an image once as long as windows that move forward have it.
absl::StatusOr<std::unique_ptr<Source>> OpenImageSource(
    const v1::Source& source, const internal::v1::ResolvedSource& resolved,
    std::vector<FeatureSignature> signatures);

// The rows of the index of such a source's only file. INDEX_DAMAGED; NOT_FOUND.
absl::StatusOr<ImageRows> OpenImageRows(const v1::Source& source,
                                        const internal::v1::ResolvedFile& file);

}  // namespace bulkhead
