#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "server/spec/yaml/yaml_tree.h"

namespace bulkhead {

// Why `text`, which is no YAML, most probably is none: an indent, a dash, a colon, a quote or a
// bracket, with what to write. `stop` is where the parser gave up: a cause stands there or before.
// None where that is unsure.
std::optional<YamlFault> DiagnoseYaml(absl::string_view text, YamlMark stop);

}  // namespace bulkhead
