#ifndef BULKHEAD_SERVER_STAGES_DECLARATION_STAGE_TABLE_H_
#define BULKHEAD_SERVER_STAGES_DECLARATION_STAGE_TABLE_H_

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.pb.h"

namespace bulkhead {

// Every stage with its options as JSON: what the declarations know (default, range, required), and
// what the comments in stages.proto say, of which `files` has the source info. The documentation
// and the Python client are generated from it:
//
//   {"Posterize": {"stage": "posterize", "meaning": "Keeps …", "options": [
//      {"name": "bits", "meaning": "How many …", "allowed": "1 to 8", "required": true,
//       "default": ""}, …]}, …}
//
// Errors: NOT_FOUND when a stage's message is not in `files`.
absl::StatusOr<std::string> StageTableJson(const google::protobuf::FileDescriptorSet& files);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_DECLARATION_STAGE_TABLE_H_
