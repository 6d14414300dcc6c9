#include "server/source/images/list_line.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace bulkhead {
namespace {

struct DelimiterForms {
  v1::Delimiter option;
  char character;
  absl::string_view name;
};
constexpr DelimiterForms kDelimiters[] = {{v1::DELIMITER_TAB, '\t', "tabs"},
                                          {v1::DELIMITER_COMMA, ',', "commas"},
                                          {v1::DELIMITER_SEMICOLON, ';', "semicolons"},
                                          {v1::DELIMITER_SPACE, ' ', "spaces"}};

}  // namespace

char DelimiterChar(v1::Delimiter delimiter) {
  const auto found = std::ranges::find(kDelimiters, delimiter, &DelimiterForms::option);
  return found == std::end(kDelimiters) ? '\0' : found->character;
}

char DelimiterOf(absl::string_view line) {
  for (const char delimiter : {'\t', ',', ';'}) {
    if (absl::StrContains(line, delimiter)) return delimiter;
  }
  return ' ';
}

absl::string_view DelimiterName(char delimiter) {
  const auto found = std::ranges::find(kDelimiters, delimiter, &DelimiterForms::character);
  return found == std::end(kDelimiters) ? "spaces" : found->name;
}

std::string ListLine::Split(absl::string_view line, char delimiter) {
  columns_.clear();
  unquoted_.clear();
  unquoted_.reserve(line.size());  // what is unquoted is shorter, so no view moves
  for (bool more = true; more;) {
    const absl::string_view rest = absl::StripLeadingAsciiWhitespace(line);
    if (ReadsQuotes(delimiter) && absl::StartsWith(rest, "\"")) {
      line = rest;
      std::string problem = TakeQuoted(line, delimiter);
      if (!problem.empty()) return problem;
      more = !line.empty();
      if (more) line.remove_prefix(1);
      continue;
    }
    const size_t at = line.find(delimiter);
    more = at != absl::string_view::npos;
    const absl::string_view column = absl::StripAsciiWhitespace(line.substr(0, at));
    if (more) line.remove_prefix(at + 1);
    if (column.empty() && delimiter == ' ') continue;
    columns_.push_back(column);
  }
  return "";
}

// Takes the quoted column at the front of `line` off, up to the delimiter behind it.
std::string ListLine::TakeQuoted(absl::string_view& line, char delimiter) {
  const std::string which = absl::StrCat("column ", columns_.size() + 1);
  const size_t begin = unquoted_.size();
  for (line.remove_prefix(1);; line.remove_prefix(1)) {
    if (line.empty() || line[0] == '\n' || line[0] == '\r') {
      return absl::StrCat(
          which,
          " begins with a quote that is not closed in this line; close it, or write "
          "the column as \"…\" with every quote in it doubled (line breaks inside "
          "quotes are not read)");
    }
    if (line[0] == '"' && !absl::StartsWith(line, "\"\"")) break;
    if (line[0] == '"') line.remove_prefix(1);
    unquoted_ += line[0];
  }
  line = absl::StripLeadingAsciiWhitespace(line.substr(1));
  if (!line.empty() && line[0] != delimiter) {
    return absl::StrCat(which,
                        " goes on after its closing quote; write a quote inside quotes twice");
  }
  columns_.push_back(absl::string_view(unquoted_).substr(begin));
  return "";
}

}  // namespace bulkhead
