#ifndef BULKHEAD_SERVER_SPEC_YAML_YAML_DIAGNOSIS_H_
#define BULKHEAD_SERVER_SPEC_YAML_YAML_DIAGNOSIS_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "server/spec/yaml/yaml_tree.h"

namespace bulkhead {

// Why `text`, which is no YAML, most probably is none: an indent, a dash, a colon, a quote or a
// bracket, with what to write. `stop` is where the parser gave up: a cause stands there or before.
// None where that is unsure.
std::optional<YamlFault> DiagnoseYaml(absl::string_view text, YamlMark stop);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_YAML_YAML_DIAGNOSIS_H_
