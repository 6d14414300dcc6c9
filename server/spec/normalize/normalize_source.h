#pragma once

#include <string>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// Normalize for a source that is not a mixture, and its features: fills in defaults, adds mistakes
// to `problems`.
void NormalizeSource(v1::Source& source, google::protobuf::Map<std::string, v1::Feature>& features,
                     SpecProblems& problems);

}  // namespace bulkhead
