#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "tensorflow/example.pb.h"

namespace bulkhead::tools {

// Adds what a spec can read of a JSON member with this ending: numbers, strings and arrays of
// numbers, by the keys of a spec, such as "json:size/width". False if it is not JSON, or holds no
// such value.
bool TakeJsonFields(const std::string& ending, absl::string_view text,
                    google::protobuf::Map<std::string, ::bulkhead::tensorflow::Feature>& features);

}  // namespace bulkhead::tools
