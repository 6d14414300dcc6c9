#include "server/spec/yaml/yaml_shape.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace bulkhead {
namespace {

constexpr size_t kNowhere = absl::string_view::npos;

// Reads one text from its beginning to its end.
class ShapeReader {
 public:
  explicit ShapeReader(absl::string_view text) : text_(text) { shape_.begins_free.push_back(true); }

  YamlShape Read() {
    while (at_ < text_.size() && !shape_.has_block_scalars) ReadOne();
    if (!shape_.has_block_scalars) shape_.fault = Fault();
    return std::move(shape_);
  }

 private:
  struct Bracket {
    size_t at;
    bool has_key = false;     // the current entry has its colon
    size_t value = kNowhere;  // of that entry, where it is a plain word
  };

  bool in_brackets() const { return !open_.empty(); }
  // A blank, or the text's end.
  bool IsBlank(size_t at) const { return at >= text_.size() || absl::ascii_isspace(text_[at]); }

  void ReadOne() {
    const char c = text_[at_];
    if (c == '\n') {
      ++at_;
      shape_.begins_free.push_back(!in_brackets());
      BeginToken();
    } else if (absl::ascii_isspace(c)) {
      ++at_;
    } else if (c == '#' && (at_ == 0 || IsBlank(at_ - 1))) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (starts_) {
      ReadStart(c);
    } else {
      ReadOn(c);
    }
  }

  // A token begins with `c`.
  void ReadStart(char c) {
    if (c == '"' || c == '\'') return ReadQuoted(c);
    if (c == '{' || c == '[') return Open();
    if (c == '}' || c == ']') return Close(c);
    if ((c == '-' || c == '?') && IsBlank(at_ + 1)) {
      ++at_;
    } else if (c == ',' && in_brackets()) {
      NextEntry();
    } else if (c == '&' || c == '!') {
      while (!IsBlank(at_)) ++at_;
    } else if ((c == '|' || c == '>') && !in_brackets()) {
      shape_.has_block_scalars = true;
    } else {
      starts_ = false;
      after_end_ = false;
      if (in_brackets() && open_.back().has_key) open_.back().value = at_;
      ReadOn(c);
    }
  }

  // A plain word goes on with `c`, or `c` stands behind a quote or a bracket that was closed.
  void ReadOn(char c) {
    const bool adjacent = at_ + 1 < text_.size() && in_brackets() &&
                          (after_end_ || absl::StrContains(",[]{}", text_[at_ + 1]));
    if (c == ':' && (IsBlank(at_ + 1) || adjacent)) {
      TakeColon();
      ++at_;
      BeginToken();
    } else if ((c == '}' || c == ']') && (in_brackets() || after_end_)) {
      Close(c);
    } else if (c == ',' && in_brackets()) {
      NextEntry();
    } else if ((c == '{' || c == '[') && in_brackets()) {
      Open();
    } else {
      ++at_;
    }
  }

  void NextEntry() {
    ++at_;
    Bracket& around = open_.back();
    around.has_key = false;
    around.value = kNowhere;
    BeginToken();
  }

  // Two colons in one entry in brackets: `{size: 64 interpolation: cubic}`.
  void TakeColon() {
    if (!in_brackets()) return;
    Bracket& around = open_.back();
    if (around.has_key && around.value != kNowhere && entry_fault_.message.empty()) {
      const absl::string_view between = text_.substr(around.value, at_ - around.value);
      const size_t blank = between.find_last_of(" \n");
      const std::string key(between.substr(blank == kNowhere ? 0 : blank + 1));
      const bool lacks_comma = blank != kNowhere;
      entry_fault_ = YamlFault{
          MarkAt(text_, at_ - key.size()),
          lacks_comma ? absl::StrCat("write a comma before `", key, ":`")
                      : absl::StrCat("a key cannot follow a key; put what belongs together into "
                                     "brackets: `{",
                                     key, ": ...}`")};
    }
    around.has_key = true;
  }

  void ReadQuoted(char quote) {
    const size_t begin = at_++;
    bool spans_lines = false;
    for (;; ++at_) {
      if (at_ >= text_.size()) {
        if (quote_ == kNowhere) quote_ = begin;
        return;
      }
      const char c = text_[at_];
      if (c == '\n') {
        spans_lines = true;
        shape_.begins_free.push_back(false);
      } else if (quote == '"' ? c == '\\' : text_.substr(at_, 2) == "''") {
        ++at_;  // \" in double quotes, and '' in single ones, end nothing
      } else if (c == quote) {
        break;
      }
    }
    ++at_;
    const bool ends_well = IsBlank(at_) || absl::StrContains(",:]}", text_[at_]);
    // The quote that closes it stands where another one was to begin.
    if (spans_lines && !ends_well && quote_ == kNowhere) quote_ = begin;
    EndToken();
  }

  void BeginToken() {
    starts_ = true;
    after_end_ = false;
  }
  void EndToken() {
    starts_ = false;
    after_end_ = true;
  }

  void Open() {
    open_.push_back({at_});
    ++at_;
    BeginToken();
  }

  void Close(char c) {
    const char wanted = c == '}' ? '{' : '[';
    if (in_brackets() && text_[open_.back().at] == wanted) {
      open_.pop_back();
      if (in_brackets()) open_.back().value = kNowhere;
    } else if (!IsOpen(wanted)) {
      if (surplus_ == kNowhere) surplus_ = at_;
      surplus_was_alone_ = surplus_was_alone_ || !in_brackets();
    } else {
      // It closes what is around the last bracket, which therefore was not closed.
      if (unclosed_ == kNowhere) unclosed_ = open_.back().at;
      while (text_[open_.back().at] != wanted) open_.pop_back();
      open_.pop_back();
    }
    ++at_;
    EndToken();
  }

  bool IsOpen(char bracket) const {
    return std::any_of(open_.begin(), open_.end(),
                       [&](const Bracket& one) { return text_[one.at] == bracket; });
  }

  YamlFault NotClosed(size_t at) const {
    const absl::string_view which = text_.substr(at, 1);
    const char* const end = which == "{" ? "}" : which == "[" ? "]" : which == "'" ? "'" : "\"";
    return {MarkAt(text_, at), absl::StrCat("the `", which, "` here is not closed; write `", end,
                                            "` behind what belongs to it")};
  }

  YamlFault Fault() const {
    if (quote_ != kNowhere) return NotClosed(quote_);
    if (unclosed_ != kNowhere) return NotClosed(unclosed_);
    if (surplus_ != kNowhere && (open_.empty() || surplus_was_alone_)) {
      return YamlFault{MarkAt(text_, surplus_), absl::StrCat("the `", text_.substr(surplus_, 1),
                                                             "` here closes nothing; remove it")};
    }
    // A document that is one bracket, as JSON is, was most probably cut off: its end is the place.
    if (in_brackets() && open_.back().at != text_.find_first_not_of(" \t\r\n")) {
      return NotClosed(open_.back().at);
    }
    return entry_fault_;
  }

  const absl::string_view text_;
  YamlShape shape_;
  std::vector<Bracket> open_;
  size_t at_ = 0;
  bool starts_ = true;      // a token may begin
  bool after_end_ = false;  // a quote or a bracket was just closed
  // What was found, each at its first place.
  size_t quote_ = kNowhere;
  size_t unclosed_ = kNowhere;
  size_t surplus_ = kNowhere;
  bool surplus_was_alone_ = false;  // stood outside of all brackets
  YamlFault entry_fault_;
};

}  // namespace

YamlMark MarkAt(absl::string_view text, size_t offset) {
  YamlMark mark;
  for (const char c : text.substr(0, offset)) {
    if (c == '\n') {
      ++mark.line;
      mark.column = 1;
    } else {
      ++mark.column;
    }
  }
  return mark;
}

YamlShape ShapeOf(absl::string_view text) { return ShapeReader(text).Read(); }

}  // namespace bulkhead
