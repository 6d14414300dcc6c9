#pragma once

#include <google/protobuf/descriptor.h>

#include <map>
#include <string>

namespace bulkhead {

// The values of an enum as label values: "out_of_memory" for EXIT_CAUSE_OUT_OF_MEMORY with the
// prefix "EXIT_CAUSE_". Without the value 0, which means unspecified.
std::map<int, std::string> EnumLabels(const google::protobuf::EnumDescriptor& type,
                                      const std::string& prefix);

}  // namespace bulkhead
