#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead::tools {

// What was done about the record indexes of a spec's objects.
struct Published {
  uint64_t objects = 0;
  uint64_t object_bytes = 0;
  uint64_t records = 0;
  uint64_t written = 0;  // indexes that were made and put beside their objects
  uint64_t written_bytes = 0;
  uint64_t too_large = 0;  // indexes that are not published (MostPublishedBytes)
};

// Puts the record index of every object of the normalized `spec` beside it, unless a right one lies
// there; indexes are made in this process. Blocks; tells `show` how far it is. INVALID_ARGUMENT if
// a source of the spec is not in s3 or gs. Other errors: those of LocalData::Create and
// ObjectFetcher::Put; what was put until then stays.
absl::StatusOr<Published> PublishIndexes(const v1::PipelineSpec& spec, const std::string& base_dir,
                                         const std::function<void(absl::string_view)>& show);

}  // namespace bulkhead::tools
