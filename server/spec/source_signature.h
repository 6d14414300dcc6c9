#ifndef BULKHEAD_SERVER_SPEC_SOURCE_SIGNATURE_H_
#define BULKHEAD_SERVER_SPEC_SOURCE_SIGNATURE_H_

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

// Width of the `path` output where the spec does not say.
inline constexpr uint64_t kDefaultMaxPathBytes = 256;

// The feature of a mixture's samples that says which source they came from.
inline constexpr char kSourceIdFeature[] = "source_id";

// The key of a `boxes` feature that names none: TensorFlow's Object Detection API writes it so.
inline constexpr char kBoxesKey[] = "image/object/bbox";
// What the four lists of a `boxes` feature are called behind its key and a slash, in the order of a
// row's numbers.
inline constexpr absl::string_view kBoxSides[] = {"xmin", "ymin", "xmax", "ymax"};

// Which of `features` declares what samples know as `name`: the one of this name, or the byte
// string whose `length` is called so. Empty: none.
std::string DeclarationOf(const google::protobuf::Map<std::string, v1::Feature>& features,
                          const std::string& name);

// What each sample of `source` holds before the first stage, sorted by name:
//   tfrecord      the declared features, and the lengths of byte strings
//   image_list    its image columns (encoded bytes), its label columns (scalars), `path`
//   image_folder  `image`, `label` (unless unlabeled), `path`
//   range         `index`, an int64 scalar
// Takes defaults for whatever is not set, so it serves written and normalized specs alike. Errors:
// INVALID_ARGUMENT (SPEC_INVALID) with metadata `path` when a feature has no type, no bound or an
// impossible shape, when two features share a name, or when the source is not set.
absl::StatusOr<std::vector<FeatureSignature>> SourceFeatures(
    const v1::Source& source, const google::protobuf::Map<std::string, v1::Feature>& features);

// The same, going on behind a declared feature that is wrong: adds every problem to `problems`, but
// none about a feature that has one already, and the names of wrong features to `wrong`. `place`:
// where source and features stand, "source.mixture.sources[1]" or, for the spec's own, nothing.
// Absent when it cannot be known which features there are.
std::optional<std::vector<FeatureSignature>> SourceFeatures(
    const v1::Source& source, const google::protobuf::Map<std::string, v1::Feature>& features,
    absl::string_view place, SpecProblems& problems, std::set<std::string>& wrong);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_SOURCE_SIGNATURE_H_
