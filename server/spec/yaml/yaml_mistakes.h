#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "server/spec/yaml/yaml_tree.h"

namespace bulkhead {

// What is wrong with a part of a YAML document that does not fit its message, in words that say
// what was probably meant and how to write it.

// "a list".
absl::string_view YamlKindName(const YamlNode& node);

// By its name, or its name in JSON; null: `type` has none.
const google::protobuf::FieldDescriptor* FindField(const google::protobuf::Descriptor& type,
                                                   const std::string& name);

// The members of oneofs that a map has chosen.
using ChosenMembers =
    std::map<const google::protobuf::OneofDescriptor*, const google::protobuf::FieldDescriptor*>;

// A key that `type` lacks, and its value. The commonest slip is an option that stands beside its
// stage instead of below it; the next one, a word of another library.
std::string UnknownKey(const std::string& key, const YamlNode& value,
                       const google::protobuf::Descriptor& type, const ChosenMembers& chosen);

// A word alone that names no member of the oneof of `type`.
std::string UnknownBareName(const std::string& word, const google::protobuf::Descriptor& type);

// A value at `path`, where a message is expected.
std::string NoYamlMap(const YamlNode& node, const google::protobuf::Message& message,
                      const std::string& path);

// A single value for a list, where it cannot be the only item; empty: it can.
std::string NoList(absl::string_view text, const google::protobuf::FieldDescriptor& field);

}  // namespace bulkhead
