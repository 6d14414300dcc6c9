#ifndef BULKHEAD_SERVER_SPEC_SOURCE_SIGNATURE_H_
#define BULKHEAD_SERVER_SPEC_SOURCE_SIGNATURE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"

namespace bulkhead {

// Width of the `path` output where the spec does not say.
inline constexpr uint64_t kDefaultMaxPathBytes = 256;

// The feature of a mixture's samples that says which source they came from.
inline constexpr char kSourceIdFeature[] = "source_id";

// What each sample of `source` holds before the first stage, sorted by name:
//   tfrecord      the declared features
//   image_list    its image columns (encoded bytes), its label columns (scalars), `path`
//   image_folder  `image`, `label` (unless unlabeled), `path`
//   range         `index`, an int64 scalar
// Takes defaults for whatever is not set, so it serves written and normalized specs alike. Errors:
// INVALID_ARGUMENT (SPEC_INVALID) with metadata `path` when a feature has no type, no bound or an
// impossible shape, when two features share a name, or when the source is not set.
absl::StatusOr<std::vector<FeatureSignature>> SourceFeatures(
    const v1::Source& source, const google::protobuf::Map<std::string, v1::Feature>& features);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_SOURCE_SIGNATURE_H_
