#include "server/spec/yaml/yaml_diagnosis.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/spec/yaml/yaml_shape.h"

namespace bulkhead {
namespace {

constexpr size_t kMostKeyBytes = 64;

// The first tab that a line begins with, or has after its dash, in a text that is no YAML: most
// probably because of it.
std::optional<YamlFault> TabFault(absl::string_view text) {
  std::optional<YamlFault> fault;
  int line = 0;
  int others = 0;
  for (const absl::string_view content : absl::StrSplit(text, '\n')) {
    ++line;
    const size_t tab = content.find_first_not_of(" -");
    if (tab == absl::string_view::npos || content[tab] != '\t') continue;
    if (fault.has_value()) {
      ++others;
    } else {
      fault = YamlFault{{line, static_cast<int>(tab) + 1}, ""};
    }
  }
  if (!fault.has_value()) return fault;
  fault->message = absl::StrCat("is indented by a tab",
                                others == 0 ? "" : absl::StrCat(", and so are ", others, " more"),
                                "; YAML takes spaces only: write two spaces for each tab");
  return fault;
}

// "size", "image_folder", "-resize".
bool IsWord(absl::string_view text) {
  if (text.empty() || !absl::ascii_isalpha(text[0])) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_') return false;
  }
  return true;
}

// Where a plain key ends: at the colon before a blank or the end. npos: `text` has none.
size_t KeyEnd(absl::string_view text) {
  for (size_t i = text.find(':'); i != absl::string_view::npos; i = text.find(':', i + 1)) {
    if (i + 1 == text.size() || absl::ascii_isspace(text[i + 1])) return i;
  }
  return absl::string_view::npos;
}

// `text` without a comment and blanks behind it; text in quotes is not looked into.
absl::string_view WithoutComment(absl::string_view text) {
  if (!absl::StrContains(text, '"') && !absl::StrContains(text, '\'')) {
    text = absl::StartsWith(text, "#") ? "" : text.substr(0, text.find(" #"));
  }
  return absl::StripTrailingAsciiWhitespace(text);
}

// Follows the lists and maps that a text's lines open by their indents, until a line fits nowhere.
// Lines in brackets or quotes are passed over. Lives for one text.
class IndentReader {
 public:
  // What is wrong with the next line; none: nothing that is certain.
  std::optional<YamlFault> Take(absl::string_view line) {
    ++line_;
    line = WithoutComment(line);
    const size_t indent = line.find_first_not_of(' ');
    if (indent == absl::string_view::npos || line[indent] == '#') return std::nullopt;
    if (line == "---" || line == "...") {
      levels_.clear();
      awaits_ = false;
      return std::nullopt;
    }
    column_ = static_cast<int>(indent) + 1;
    rest_ = line.substr(indent);
    bool first = true;
    while (rest_ == "-" || absl::StartsWith(rest_, "- ")) {
      if (std::optional<YamlFault> fault = TakeDash(first)) return fault;
      const size_t next = std::min(rest_.find_first_not_of(' ', 1), rest_.size());
      rest_.remove_prefix(next);
      column_ += static_cast<int>(next);
      awaits_ = true;
      first = false;
    }
    return rest_.empty() ? std::nullopt : TakeContent();
  }

 private:
  struct Level {
    int column;
    bool is_list;
    std::string key;  // of a map: its last one
  };

  template <typename... Parts>
  YamlFault Fault(const Parts&... message) const {
    return {{line_, column_}, absl::StrCat(message...)};
  }

  // Leaves what lies to the right of the line; returns the last list and the last level left.
  void Leave(int& list, int& any) {
    while (!levels_.empty() && levels_.back().column > column_) {
      any = levels_.back().column;
      if (levels_.back().is_list) list = levels_.back().column;
      levels_.pop_back();
      awaits_ = false;
    }
  }

  std::optional<YamlFault> TakeDash(bool begins_line) {
    int list = 0;
    int any = 0;
    Leave(list, any);
    const bool fits = !levels_.empty() && levels_.back().column == column_;
    if (fits && levels_.back().is_list) return std::nullopt;
    if (levels_.empty() ? any == 0 : awaits_) {
      levels_.push_back({column_, true, ""});
      return std::nullopt;
    }
    for (auto level = levels_.rbegin(); list == 0 && level != levels_.rend(); ++level) {
      if (level->is_list) list = level->column;
    }
    if (list == 0 || !begins_line) return std::nullopt;
    return Fault("the dash must stand in the column of the dash above it (column ", list, ")");
  }

  std::optional<YamlFault> TakeContent() {
    if (absl::StrContains("{[\"'&!*%@`", rest_[0])) return TakeOther();
    const size_t end = KeyEnd(rest_);
    if (end != absl::string_view::npos) return TakeKey(end);
    const bool lacks_blank = rest_[0] == '-' && IsWord(rest_.substr(1));
    const bool is_value = awaits_ && (levels_.empty() || column_ > levels_.back().column);
    if (lacks_blank && !is_value) return LacksBlank(rest_.substr(1));
    if (IsWord(rest_) && !is_value && (levels_.empty() || FitsMap())) {
      return Fault("write a colon after `", Shown(rest_), "`");
    }
    return TakeOther();
  }

  static std::string Shown(absl::string_view text) {
    return std::string(text.substr(0, kMostKeyBytes));
  }

  YamlFault LacksBlank(absl::string_view word) const {
    return Fault("write a space after the dash: `- ", Shown(word), "`");
  }

  bool FitsMap() const {
    for (const Level& level : levels_) {
      if (!level.is_list && level.column == column_) return true;
    }
    return false;
  }

  // A value on a line of its own.
  std::optional<YamlFault> TakeOther() {
    // A key in quotes, or the like, whose level is not known here.
    unsure_ = unsure_ || KeyEnd(rest_) != absl::string_view::npos;
    awaits_ = false;
    return std::nullopt;
  }

  std::optional<YamlFault> TakeKey(size_t end) {
    const absl::string_view key = rest_.substr(0, end);
    if (key[0] == '-' && IsWord(key.substr(1))) return LacksBlank(absl::StrCat(key.substr(1), ":"));
    int list = 0;
    int any = 0;
    Leave(list, any);
    // A list may stand in the column of its key.
    const size_t count = levels_.size();
    if (count >= 2 && levels_[count - 1].is_list && levels_[count - 1].column == column_ &&
        !levels_[count - 2].is_list && levels_[count - 2].column == column_) {
      levels_.pop_back();
      awaits_ = false;
    }
    const bool fits =
        !levels_.empty() && !levels_.back().is_list && levels_.back().column == column_;
    const bool opens = levels_.empty() ? any == 0 : awaits_;
    if (!fits && !opens) return KeyFault(key, any);
    if (!fits) levels_.push_back({column_, false, ""});
    levels_.back().key = Shown(key);
    return TakeValue(key, end);
  }

  std::optional<YamlFault> KeyFault(absl::string_view key, int left) const {
    if (unsure_ || !IsWord(key)) return std::nullopt;
    if (levels_.empty()) {
      return Fault("`", Shown(key), "` must stand in the column of the key above it (", "column ",
                   left, ")");
    }
    const Level& around = levels_.back();
    if (around.is_list) {
      return Fault("write a dash before `", Shown(key), "`, in the column of the dash ",
                   "above it (column ", around.column, ")");
    }
    return Fault("`", Shown(key), "` is indented further than `", around.key,
                 "`, which has its value already: begin it in column ", around.column,
                 left == 0 ? "" : absl::StrCat(" or in column ", left));
  }

  std::optional<YamlFault> TakeValue(absl::string_view key, size_t end) {
    const size_t at = std::min(rest_.find_first_not_of(' ', end + 1), rest_.size());
    const absl::string_view value = rest_.substr(at);
    awaits_ = value.empty() || value[0] == '&' || value[0] == '!';
    if (value.empty() || absl::StrContains("{[\"'&!*", value[0])) return std::nullopt;
    const size_t second = KeyEnd(value);
    if (second == absl::string_view::npos) return std::nullopt;
    const absl::string_view word = value.substr(0, second);
    column_ += static_cast<int>(at);
    if (!IsWord(word)) {
      return Fault("a value that holds `: ` must stand in quotes: `", Shown(key), ": \"",
                   Shown(value), "\"`");
    }
    return Fault("`", Shown(word), ":` cannot follow `", Shown(key),
                 ":` in its line: begin it on a new line, indented further than `", Shown(key),
                 "`");
  }

  std::vector<Level> levels_;
  int line_ = 0;
  int column_ = 1;
  absl::string_view rest_;  // of the line
  bool awaits_ = false;     // the last key or dash has no value yet
  bool unsure_ = false;
};

// The first line up to `last` whose indent, dash or colon is wrong.
std::optional<YamlFault> IndentFault(absl::string_view text, const YamlShape& shape, int last) {
  if (shape.has_block_scalars) return std::nullopt;
  IndentReader reader;
  int line = 0;
  for (const absl::string_view content : absl::StrSplit(text, '\n')) {
    if (++line > last) break;
    const bool is_free = shape.begins_free[static_cast<size_t>(line) - 1];
    if (auto fault = reader.Take(is_free ? content : "")) return fault;
  }
  return std::nullopt;
}

}  // namespace

std::optional<YamlFault> DiagnoseYaml(absl::string_view text, YamlMark stop) {
  if (auto tab = TabFault(text)) return tab;
  const YamlShape shape = ShapeOf(text);
  if (!shape.fault.message.empty()) return shape.fault;
  return IndentFault(text, shape, stop.line);
}

}  // namespace bulkhead
