#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace bulkhead {

// A place in a text, both from 1.
struct YamlMark {
  int line = 1;
  int column = 1;
};

// One value of a YAML document. An alias is the same node as its anchor, so the nodes form a graph,
// which may even have cycles; code that walks it must bound the walk.
struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  YamlMark mark;
  std::string text;                                                  // of a scalar
  std::vector<const YamlNode*> items;                                // of a sequence
  std::vector<std::pair<const YamlNode*, const YamlNode*>> entries;  // of a map, as written
};

// A value in a short spelling: "224", "[224, 224]"; empty for a map, or for a nested or long value.
std::string YamlText(const YamlNode& value);

// Why a text is not a YAML document.
struct YamlFault {
  YamlMark mark;
  std::string message;
};

// Limits of untrusted text.
inline constexpr size_t kMaxYamlBytes = 1 << 20;
inline constexpr size_t kMaxYamlNodes = 50'000;
// Limit of the characters {}[],:?"' together: yaml-cpp's memory grows with them, by up to 250 bytes
// each, before any of its events can be refused.
inline constexpr size_t kMaxYamlPunctuation = 100'000;
inline constexpr size_t kMaxYamlDepth = 64;

// One parsed YAML (or JSON) document, with the place of every value. The only user of yaml-cpp.
// Owns its nodes; movable; immutable once parsed.
class YamlTree {
 public:
  // Parses exactly one document. Never throws, except std::bad_alloc; refuses text that exceeds the
  // limits above or is not UTF-8.
  static std::variant<YamlTree, YamlFault> Parse(absl::string_view text);

  const YamlNode& root() const { return *root_; }

 private:
  friend class YamlTreeBuilder;
  std::deque<YamlNode> nodes_;
  const YamlNode* root_ = nullptr;
};

}  // namespace bulkhead
