#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace bulkhead {

// Sets the field of `message` (appends, if it is repeated) to the value of `text`: whole numbers as
// digits, other numbers also with point and exponent (.nan, .inf), true and false, an enum by its
// lower-case tail or its full name. Returns the problem with the text, human-readable ("must be a
// whole number, but is `abc`"); empty if the field was set. `field` is not a message.
std::string SetScalar(absl::string_view text, const google::protobuf::FieldDescriptor& field,
                      google::protobuf::Message& message);

// An enum's value as specs write it: "linear" for INTERPOLATION_LINEAR.
std::string EnumTail(const google::protobuf::EnumValueDescriptor& value);

// The value of an enum that a word of another library means, "float32" of "float"; empty: none that
// `field` has.
std::string ForeignEnumValue(absl::string_view word,
                             const google::protobuf::FieldDescriptor& field);

}  // namespace bulkhead
