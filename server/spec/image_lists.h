#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// A list of encoded images is a feature for each of its images: `views` of three images is
// `views/0`, `views/1` and `views/2`. A stage that names `views` works on each of them, with the
// same random numbers (SourceChains).

// The lists of a source's samples, by name, with their numbers of images: byte strings with a
// `shape` and without `max_bytes`; the image columns of lists and folders with `frames`.
using ImageLists = std::map<std::string, uint32_t>;
ImageLists ImageListsOf(const v1::Source& source,
                        const google::protobuf::Map<std::string, v1::Feature>& features);

// The windows that the source cuts its images into; null: each image or line is a sample.
const v1::Frames* FramesOf(const v1::Source& source);

// The number of images if `bytes` declares a list of them; 0: it does not. May be over kMaxFrames.
uint64_t ImagesIn(const v1::BytesFeature& bytes);

// "views/2".
std::string ImageName(absl::string_view list, uint64_t number);

// The number of the image called `name` in the list `list`; absent: it is none.
std::optional<uint64_t> ImageNumber(absl::string_view list, absl::string_view name);

}  // namespace bulkhead
