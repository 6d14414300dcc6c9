#pragma once

#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace bulkhead {

// The canonical text of a message: the same for equal messages, different for different ones,
// whatever the version of protobuf, the machine or the order of a map. The grammar, without any
// space:
//
//   message  {name=value;name=value;…}   fields that are set, sorted by name; proto3 scalars
//                                        without presence count as set when they are not zero
//   list     [value,value,…]             in its order
//   map      <key:value,key:value,…>     sorted by the key's bytes
//   string   s5:bytes                    length in bytes, colon, the bytes themselves (bytes too)
//   integer  i-7 (signed), u7 (unsigned)
//   float    f3f800000, double d3ff0000000000000: the IEEE 754 bits in hex; every NaN as fnan, dnan
//   bool     b0, b1
//   enum     eINTERPOLATION_LINEAR; an unknown number as e#9
//
// Fields named in `without` are left out of the outermost message. A later version that
// adds a field to the schema must leave it out of the text as long as it has the value that earlier
// versions implied, or give the fingerprint a new version.
std::string CanonicalText(const google::protobuf::Message& message,
                          const std::set<std::string>& without = {});

// "s5:bytes", as in the grammar.
std::string CanonicalString(absl::string_view bytes);

}  // namespace bulkhead
