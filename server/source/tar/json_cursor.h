#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace bulkhead {

// A place in a JSON text. Every Take passes over white space, then over what it names, and says
// whether it was there; after false the text is not JSON, or something else stands here. Not
// thread-safe.
class JsonCursor {
 public:
  explicit JsonCursor(absl::string_view text) : text_(text) {}

  // The next byte behind white space; 0 at the end.
  char Peek();
  bool Take(char byte) {
    if (Peek() != byte) return false;
    ++at_;
    return true;
  }
  // A string; `content` is what stands between the quotation marks.
  bool TakeString(absl::string_view& content);
  // A number, true, false, null, NaN or Infinity.
  bool TakeWord(absl::string_view& word);
  // A value of any kind, which nests at most kMaxDepth arrays and objects.
  bool TakeValue(absl::string_view& value);

  // How many bytes were passed over.
  size_t at() const { return at_; }

  static constexpr int kMaxDepth = 64;

 private:
  bool PassValue(int depth);

  const absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace bulkhead
