#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// Default width of the `path` output.
inline constexpr uint64_t kDefaultMaxPathBytes = 256;

// The feature of a mixture's samples that has the number of their source.
inline constexpr char kSourceIdFeature[] = "source_id";

// The default key of a `boxes` feature, as TensorFlow's Object Detection API writes it.
inline constexpr char kBoxesKey[] = "image/object/bbox";
// The names of the four lists of a `boxes` feature after its key and a slash, in the order of a
// row's numbers.
inline constexpr absl::string_view kBoxSides[] = {"xmin", "ymin", "xmax", "ymax"};

// Which of `features` declares the samples' feature `name`: the one of this name, the byte string
// with this `length`, or the list that has this image. Empty: none.
std::string DeclarationOf(const google::protobuf::Map<std::string, v1::Feature>& features,
                          const std::string& name);

// The features of each sample of `source` before the first stage, sorted by name:
//   tfrecord      the declared features, and the lengths of byte strings; of a list of images each
//                 image (image_lists.h)
//   tar           the same; if none are declared, UsualTarFeatures
//   image_list    its image columns (encoded bytes), its label columns (scalars), `path`
//   image_folder  `image`, `label` (unless unlabeled), `path`; of both, with `frames`, each image
//   of
//                 a window
//   range         `index`, an int64 scalar
// Uses defaults for options that are not set, so it works with written and normalized specs.
// Errors: INVALID_ARGUMENT (SPEC_INVALID) with metadata `path` if a feature has no type, no bound
// or an impossible shape, if two features share a name, or if the source is not set.
absl::StatusOr<std::vector<FeatureSignature>> SourceFeatures(
    const v1::Source& source, const google::protobuf::Map<std::string, v1::Feature>& features);

// The same, but continues after a mistake: adds every problem to `problems`, except about a feature
// that has one already, and the names of wrong features to `wrong`. `place`: the place of source
// and features, "source.mixture.sources[1]"; empty for the spec's own. Absent if the features
// cannot be known.
std::optional<std::vector<FeatureSignature>> SourceFeatures(
    const v1::Source& source, const google::protobuf::Map<std::string, v1::Feature>& features,
    absl::string_view place, SpecProblems& problems, std::set<std::string>& wrong);

}  // namespace bulkhead
