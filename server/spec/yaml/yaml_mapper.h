#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "google/protobuf/message.h"
#include "server/spec/yaml/yaml_tree.h"

namespace bulkhead {

// The result of writing a YAML document into a message: the problems, and the place of each part.
struct MappedYaml {
  struct Problem {
    YamlMark mark;
    std::string path;
    std::string message;
  };
  std::vector<Problem> problems;
  // "stages[2].resize.size" → the place of its value or, for a message, of its key.
  std::map<std::string, YamlMark> marks;
  // The places of maps with an unknown key or, below the top of the spec, with an impossible value.
  // A missing key of these maps may be meant by it.
  std::set<std::string> incomplete;
  // An unknown key at the top of the spec has a list or a map, which may be meant as the stages.
  bool lacks_part = false;
};

// Writes the map `root` into `message` by reflection: keys are field names (proto's JSON names
// too), a oneof's member is a key of its own, a single value may be written for a list, and the
// bare name of a oneof's message for that message with nothing set (`- random_horizontal_flip`). A
// written 0 that is not allowed is a problem here, because a message cannot tell it from an unset
// field. Continues after a problem, so that all are found; visits at most kMaxYamlNodes values,
// aliases counted each time.
MappedYaml MapYaml(const YamlNode& root, google::protobuf::Message& message);

}  // namespace bulkhead
