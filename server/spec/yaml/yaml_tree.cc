#include "server/spec/yaml/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/utf8.h"
#include "server/spec/yaml/yaml_diagnosis.h"
#include "server/spec/yaml/yaml_shape.h"

namespace bulkhead {
namespace {

// Of values that messages repeat.
constexpr size_t kMaxShownItems = 8;
constexpr absl::string_view kPunctuation = "{}[],:?\"'";

YamlMark MarkOf(const YAML::Mark& mark) {
  // yaml-cpp gives -1 where it does not know.
  return {mark.line < 0 ? 1 : mark.line + 1, mark.column < 0 ? 1 : mark.column + 1};
}

// yaml-cpp places a value that is not there (`-` with nothing after it) at the next token, lines
// later perhaps; this is the last character before that token instead. A null that is written out
// stays where it is.
YamlMark MarkOfNothing(absl::string_view text, const YAML::Mark& next) {
  YamlMark mark = MarkOf(next);
  size_t end = next.pos < 0 ? 0 : std::min(static_cast<size_t>(next.pos), text.size());
  const absl::string_view rest = text.substr(end, 4);
  if (absl::StartsWith(rest, "~") || absl::EqualsIgnoreCase(rest, "null")) return mark;
  bool other_line = false;
  while (end > 0 && absl::ascii_isspace(text[end - 1])) {
    --end;
    --mark.column;
    if (text[end] != '\n') continue;
    --mark.line;
    other_line = true;
  }
  if (end == 0) return MarkOf(next);
  if (!other_line) return {mark.line, mark.column - 1};
  const size_t newline = text.rfind('\n', end - 1);
  return {mark.line,
          static_cast<int>(newline == absl::string_view::npos ? end : end - 1 - newline)};
}

// Thrown through yaml-cpp's parser, which has no other way to be stopped; caught in Parse.
struct OverLimit {
  YamlFault fault;
};

}  // namespace

std::string YamlText(const YamlNode& value) {
  if (value.kind == YamlNode::Kind::kScalar) return value.text;
  if (value.kind != YamlNode::Kind::kSequence || value.items.size() > kMaxShownItems) return "";
  std::vector<std::string> items;
  for (const YamlNode* item : value.items) {
    if (item->kind != YamlNode::Kind::kScalar) return "";
    items.push_back(item->text);
  }
  return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
}

// Turns yaml-cpp's events into nodes. Lives for one parse.
class YamlTreeBuilder : public YAML::EventHandler {
 public:
  // `text` is what is parsed; it outlives the builder.
  explicit YamlTreeBuilder(absl::string_view text) : text_(text) {}

  YamlTree Take() { return std::move(tree_); }
  bool has_root() const { return tree_.root_ != nullptr; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(YamlNode::Kind::kNull, mark, anchor)->mark = MarkOfNothing(text_, mark);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (anchor == 0 || anchor >= anchors_.size() || anchors_[anchor] == nullptr) {
      throw OverLimit{{MarkOf(mark), "the alias names no anchor before it"}};
    }
    Place(anchors_[anchor], mark);
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    Add(YamlNode::Kind::kScalar, mark, anchor)->text = value;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(Add(YamlNode::Kind::kSequence, mark, anchor), mark);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(Add(YamlNode::Kind::kMap, mark, anchor), mark);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  // A collection that is being read; `key` waits for its value.
  struct OpenNode {
    YamlNode* node;
    const YamlNode* key;
  };

  YamlNode* Add(YamlNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    tree_.nodes_.emplace_back();
    YamlNode* node = &tree_.nodes_.back();
    node->kind = kind;
    node->mark = MarkOf(mark);
    if (anchor != 0) {
      if (anchors_.size() <= anchor) anchors_.resize(anchor + 1, nullptr);
      anchors_[anchor] = node;
    }
    Place(node, mark);
    return node;
  }

  void Open(YamlNode* node, const YAML::Mark& mark) {
    if (open_.size() >= kMaxYamlDepth) {
      throw OverLimit{{MarkOf(mark), absl::StrCat("nested deeper than ", kMaxYamlDepth,
                                                  " levels; no spec needs that")}};
    }
    open_.push_back({node, nullptr});
  }

  void Place(const YamlNode* node, const YAML::Mark& mark) {
    // Places, not nodes: aliases take one each.
    if (++places_ > kMaxYamlNodes) {
      throw OverLimit{{MarkOf(mark), absl::StrCat("more than ", kMaxYamlNodes,
                                                  " values; put long lists into a file "
                                                  "(image_list: {path: ...})")}};
    }
    if (open_.empty()) {
      tree_.root_ = node;
      return;
    }
    OpenNode& parent = open_.back();
    if (parent.node->kind == YamlNode::Kind::kSequence) {
      parent.node->items.push_back(node);
    } else if (parent.key == nullptr) {
      parent.key = node;
    } else {
      parent.node->entries.emplace_back(parent.key, node);
      parent.key = nullptr;
    }
  }

  absl::string_view text_;
  YamlTree tree_;
  std::vector<OpenNode> open_;
  std::vector<const YamlNode*> anchors_;
  size_t places_ = 0;
};

std::variant<YamlTree, YamlFault> YamlTree::Parse(absl::string_view text) {
  if (text.size() > kMaxYamlBytes) {
    return YamlFault{{},
                     absl::StrCat("the spec has ", text.size(), " bytes, over the limit of ",
                                  kMaxYamlBytes, "; put long lists into a file")};
  }
  const size_t bad = FirstByteThatIsNoText(text);
  if (bad != absl::string_view::npos) {
    return YamlFault{MarkAt(text, bad),
                     absl::StrCat("the byte 0x",
                                  absl::Hex(static_cast<unsigned char>(text[bad]), absl::kZeroPad2),
                                  " is not text; save the file as UTF-8")};
  }
  size_t punctuation = 0;
  for (const char c : text) punctuation += absl::StrContains(kPunctuation, c) ? 1 : 0;
  if (punctuation > kMaxYamlPunctuation) {
    return YamlFault{{},
                     absl::StrCat("the spec has ", punctuation, " of the characters ", kPunctuation,
                                  ", over the limit of ", kMaxYamlPunctuation,
                                  "; put long lists into a file (image_list: {path: ...})")};
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    YamlTreeBuilder builder(text);
    if (!parser.HandleNextDocument(builder) || !builder.has_root()) {
      return YamlFault{{}, "the spec is empty; it needs at least `source` and `batch`"};
    }
    YamlTreeBuilder second(text);
    if (parser.HandleNextDocument(second) && second.has_root()) {
      const YamlMark mark = second.Take().root().mark;
      if (auto fault = DiagnoseYaml(text, mark)) return *std::move(fault);
      return YamlFault{mark, "a second document begins here; a spec is one document"};
    }
    return builder.Take();
  } catch (const OverLimit& over) {
    return over.fault;
  } catch (const YAML::Exception& error) {
    if (auto fault = DiagnoseYaml(text, MarkOf(error.mark))) return *std::move(fault);
    return YamlFault{MarkOf(error.mark), absl::StrCat("not valid YAML: ", error.msg)};
  }
}

}  // namespace bulkhead
