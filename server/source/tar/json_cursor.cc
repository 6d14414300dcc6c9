#include "server/source/tar/json_cursor.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace bulkhead {
namespace {

bool IsDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char byte) {
    return absl::ascii_isdigit(static_cast<unsigned char>(byte));
  });
}

// "-12.5": what most numbers are, told without computing them.
bool IsPlainNumber(absl::string_view word) {
  absl::ConsumePrefix(&word, "-");
  const size_t point = word.find('.');
  return IsDigits(word.substr(0, point)) &&
         (point == absl::string_view::npos || IsDigits(word.substr(point + 1)));
}

bool IsWord(absl::string_view word) {
  if (IsPlainNumber(word)) return true;
  double number = 0;
  const bool is_named = word == "true" || word == "false" || word == "null" || word == "NaN" ||
                        word == "Infinity" || word == "-Infinity";
  return is_named || (word.front() != '+' && absl::ascii_isdigit(word.back()) &&
                      absl::SimpleAtod(word, &number));
}

}  // namespace

char JsonCursor::Peek() {
  const auto is_space = [](char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
  };
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonCursor::TakeString(absl::string_view& content) {
  if (!Take('"')) return false;
  const size_t begin = at_;
  for (; at_ < text_.size(); ++at_) {
    const unsigned char byte = static_cast<unsigned char>(text_[at_]);
    if (byte == '"') {
      content = text_.substr(begin, at_++ - begin);
      return true;
    }
    if (byte < 0x20) return false;
    if (byte == '\\') ++at_;
  }
  return false;
}

bool JsonCursor::TakeWord(absl::string_view& word) {
  Peek();
  const size_t begin = at_;
  const auto belongs = [](char byte) {
    return absl::ascii_isalnum(static_cast<unsigned char>(byte)) || byte == '-' || byte == '+' ||
           byte == '.';
  };
  while (at_ < text_.size() && belongs(text_[at_])) ++at_;
  word = text_.substr(begin, at_ - begin);
  return !word.empty();
}

bool JsonCursor::TakeValue(absl::string_view& value) {
  Peek();
  const size_t begin = at_;
  if (!PassValue(0)) return false;
  value = text_.substr(begin, at_ - begin);
  return true;
}

bool JsonCursor::PassValue(int depth) {
  absl::string_view passed;
  const char first = Peek();
  if (first == '"') return TakeString(passed);
  if (first != '{' && first != '[') return TakeWord(passed) && IsWord(passed);
  if (depth == kMaxDepth) return false;
  const char last = first == '{' ? '}' : ']';
  ++at_;
  if (Take(last)) return true;
  for (;;) {
    if (first == '{' && !(TakeString(passed) && Take(':'))) return false;
    if (!PassValue(depth + 1)) return false;
    if (Take(last)) return true;
    if (!Take(',')) return false;
  }
}

}  // namespace bulkhead
