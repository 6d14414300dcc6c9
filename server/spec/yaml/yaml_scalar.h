#ifndef BULKHEAD_SERVER_SPEC_YAML_YAML_SCALAR_H_
#define BULKHEAD_SERVER_SPEC_YAML_YAML_SCALAR_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace bulkhead {

// Sets the field of `message` (appends, when it is repeated) to the value that `text` writes: whole
// numbers as digits, other numbers also with point and exponent (.nan, .inf), true and false, an
// enum by its lower-case tail or its full name. Returns what is wrong with the text, in words for
// people ("must be a whole number, but is `abc`"); empty when the field was set. `field` is not a
// message.
std::string SetScalar(absl::string_view text, const google::protobuf::FieldDescriptor& field,
                      google::protobuf::Message& message);

// "linear" for INTERPOLATION_LINEAR: how a spec writes an enum's value.
std::string EnumTail(const google::protobuf::EnumValueDescriptor& value);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_YAML_YAML_SCALAR_H_
