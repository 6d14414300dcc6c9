#pragma once

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/spec/yaml/yaml_tree.h"

namespace bulkhead {

// The line and column of the byte at `offset`.
YamlMark MarkAt(absl::string_view text, size_t offset);

// The quotes and brackets of a text, which need not be YAML.
struct YamlShape {
  // What is wrong with them, at the place to correct; no message: nothing that is certain.
  YamlFault fault;
  // For each line whether it begins outside of all brackets and quotes.
  std::vector<bool> begins_free;
  // Whether the text has block scalars (`|`, `>`), which are not read: the rest says nothing then.
  bool has_block_scalars = false;
};

// Reads the quotes and brackets of `text`. A quote counts where a value can begin, and a bracket
// there or in other brackets, so that an apostrophe in a word is none.
YamlShape ShapeOf(absl::string_view text);

}  // namespace bulkhead
