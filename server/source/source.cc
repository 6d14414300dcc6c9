#include "server/source/source.h"

#include <utility>

#include "server/base/error.h"
#include "server/source/image_source.h"
#include "server/source/range_source.h"
#include "server/source/tfrecord_source.h"
#include "server/spec/source_signature.h"

namespace bulkhead {

absl::StatusOr<std::unique_ptr<Source>> OpenSource(
    const v1::Source& source, const google::protobuf::Map<std::string, v1::Feature>& features,
    const internal::v1::ResolvedSource& resolved) {
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<FeatureSignature> signatures,
                            SourceFeatures(source, features));
  switch (source.source_case()) {
    case v1::Source::kTfrecord:
      return OpenTfRecordSource(features, resolved, std::move(signatures));
    case v1::Source::kRange:
      return OpenRangeSource(source.range(), std::move(signatures));
    default:  // SourceFeatures has refused a source that is not set
      return OpenImageSource(source, resolved, std::move(signatures));
  }
}

}  // namespace bulkhead
