#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// What separates the columns of a list whose first line this is: a tab if it has one, else a comma,
// else a semicolon, else a space.
char DelimiterOf(absl::string_view line);
// The one that a spec's `delimiter` is; 0: it says none.
char DelimiterChar(v1::Delimiter delimiter);
// "tabs".
absl::string_view DelimiterName(char delimiter);
// Whether columns may be quoted.
inline bool ReadsQuotes(char delimiter) { return delimiter == ',' || delimiter == ';'; }

// Cuts one line of an image list into columns at `delimiter`, a tab, comma, semicolon or space;
// several spaces separate as one. Columns are trimmed of blanks. Between commas and semicolons a
// column that begins with `"` is quoted as in CSV files (RFC 4180): it ends at the next single `"`,
// holds delimiters and blanks as they are, and `""` is a quote; it has no line break. Not
// thread-safe.
class ListLine {
 public:
  // Returns the problem with the line, human-readable; empty if there is none.
  std::string Split(absl::string_view line, char delimiter);

  // The columns of the last line: views of it, or of this object.
  const std::vector<absl::string_view>& columns() const { return columns_; }

 private:
  std::string TakeQuoted(absl::string_view& line, char delimiter);

  std::vector<absl::string_view> columns_;
  std::string unquoted_;  // the contents of quoted columns, one after the other
};

}  // namespace bulkhead
