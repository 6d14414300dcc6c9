#ifndef BULKHEAD_SERVER_SPEC_STAGES_USER_KINDS_H_
#define BULKHEAD_SERVER_SPEC_STAGES_USER_KINDS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/stages.pb.h"
#include "server/spec/signature.h"
#include "server/spec/spec_error.h"

// What functions of the user's have in common, whether they are called for samples or for batches.
namespace bulkhead {

// Checks a function and what it declares; fills defaults in.
void NormalizePython(v1::Python& stage, const std::string& path, SpecProblems& problems);

// What a declared output is: one sample of it.
FeatureSignature UserOutputSignature(const v1::StageOutput& output, absl::string_view path);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_STAGES_USER_KINDS_H_
