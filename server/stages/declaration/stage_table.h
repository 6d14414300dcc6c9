#ifndef BULKHEAD_SERVER_STAGES_DECLARATION_STAGE_TABLE_H_
#define BULKHEAD_SERVER_STAGES_DECLARATION_STAGE_TABLE_H_

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.pb.h"

namespace bulkhead {

// Every stage with its options as JSON: facts of the declarations (default, range, required), and
// the comments in stages.proto, of which `files` has the source info. The documentation and the
// Python client are generated from this:
//
//   {"Posterize": {"stage": "posterize", "meaning": "Keeps …", "options": [
// {"name": "bits", "meaning": "Number …", "allowed": "1 to 8", "required": true,
//       "default": ""}, …]}, …}
//
// Errors: NOT_FOUND if a stage's message is not in `files`.
absl::StatusOr<std::string> StageTableJson(const google::protobuf::FileDescriptorSet& files);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_DECLARATION_STAGE_TABLE_H_
