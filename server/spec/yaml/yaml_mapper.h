#ifndef BULKHEAD_SERVER_SPEC_YAML_YAML_MAPPER_H_
#define BULKHEAD_SERVER_SPEC_YAML_YAML_MAPPER_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "google/protobuf/message.h"
#include "server/spec/yaml/yaml_tree.h"

namespace bulkhead {

// A YAML document written into a message: what is wrong with it, and where each part stands.
struct MappedYaml {
  struct Problem {
    YamlMark mark;
    std::string path;
    std::string message;
  };
  std::vector<Problem> problems;
  // "stages[2].resize.size" → where its value stands; for messages, where their key does.
  std::map<std::string, YamlMark> marks;
  // The places of maps with a key that nobody knows, or, below the whole spec, with a value that
  // cannot be: what these maps lack may be meant by it.
  std::set<std::string> incomplete;
  // Such a key of the whole spec has a list or a map below it: the stages, perhaps.
  bool lacks_part = false;
};

// Writes the map `root` into `message` by reflection: keys are field names (proto's JSON names
// too), a oneof's member is a key of its own, a lone value may stand for a list, and the bare name
// of a oneof's message for that message with nothing set (`- random_horizontal_flip`). A 0 that is
// written where 0 cannot be is a problem here, because the message does not tell it from nothing.
// Goes on after a problem, so that all are found; visits at most kMaxYamlNodes values, aliases
// counted each time.
MappedYaml MapYaml(const YamlNode& root, google::protobuf::Message& message);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_YAML_YAML_MAPPER_H_
