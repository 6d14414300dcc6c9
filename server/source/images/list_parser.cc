#include "server/source/images/list_parser.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/spec/source_signature.h"

namespace bulkhead {
namespace {

constexpr size_t kShownPathBytes = 40;

// What `delimiter` in the spec would give the line as many columns as are wanted; empty: none.
std::string OtherDelimiter(absl::string_view line, char delimiter, size_t wanted) {
  for (const char other : {'\t', ',', ';', ' '}) {
    ListLine cut;
    if (wanted < 2 || other == delimiter || !cut.Split(line, other).empty()) continue;
    const absl::string_view name = DelimiterName(other);  // "tabs"
    if (cut.columns().size() == wanted) return std::string(name.substr(0, name.size() - 1));
  }
  return "";
}

// Whether `text` ends as the names of images do.
bool LooksLikeImage(absl::string_view text) {
  constexpr absl::string_view kEndings[] = {".jpg", ".jpeg", ".png",  ".bmp", ".gif",
                                            ".tif", ".tiff", ".webp", ".ppm", ".pgm"};
  return std::any_of(std::begin(kEndings), std::end(kEndings), [&](absl::string_view ending) {
    return absl::EndsWithIgnoreCase(text, ending);
  });
}

}  // namespace

size_t PathColumns(const v1::ImageListSource& list) {
  return std::max<size_t>(1, static_cast<size_t>(list.images_size()));
}

size_t LabelColumns(const v1::ImageListSource& list) {
  return list.unlabeled() ? 0 : std::max<size_t>(1, static_cast<size_t>(list.labels_size()));
}

ListParser::ListParser(const v1::ImageListSource& list, absl::string_view name, LabelReader* labels)
    : name_(name),
      path_columns_(PathColumns(list)),
      label_columns_(LabelColumns(list)),
      max_path_bytes_(list.max_path_bytes() == 0 ? kDefaultMaxPathBytes : list.max_path_bytes()),
      label_reader_(labels),
      delimiter_(DelimiterChar(list.delimiter())),
      header_left_(list.header()) {}

std::string ListParser::place() const { return absl::StrCat(Printable(name_), ":", line_number_); }

absl::Status ListParser::Invalid(absl::string_view what) const {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                   absl::StrCat(place(), ": ", what),
                   {{"file", name_}, {"line", absl::StrCat(line_number_)}});
}

absl::Status ListParser::Split(absl::string_view line, bool whole_line) {
  const bool reads_quotes = !whole_line && ReadsQuotes(delimiter_);
  if (line[0] == '\'' || (line[0] == '"' && !reads_quotes)) {
    return Invalid(
        "begins with a quote; quotes are read with `delimiter: comma` or `semicolon` only, and "
        "double ones: separate columns by tabs, then paths may hold spaces and commas");
  }
  if (whole_line) {
    columns_.assign(1, line);
  } else {
    const std::string problem = cut_.Split(line, delimiter_);
    if (!problem.empty()) return Invalid(problem);
    columns_ = cut_.columns();
  }
  const size_t wanted = path_columns_ + label_columns_;
  if (columns_.size() == wanted) return absl::OkStatus();
  const bool missing = columns_.size() < wanted;
  const std::string index = columns_.size() == wanted + 1 ? IndexAdvice() : "";
  const std::string other = OtherDelimiter(line, delimiter_, wanted);
  return Invalid(absl::StrCat(
      "has ", columns_.size(), columns_.size() == 1 ? " column" : " columns", " separated by ",
      DelimiterName(delimiter_), ", but ", wanted, " are needed (", path_columns_,
      path_columns_ == 1 ? " path, " : " paths, ", label_columns_,
      label_columns_ == 1 ? " label); " : " labels); ",
      !index.empty()   ? index
      : !other.empty() ? absl::StrCat("write `delimiter: ", other, "`")
      : missing        ? "add what is missing, or set `unlabeled` or `delimiter`"
                : "remove the rest, or set `labels` or `delimiter` (paths with spaces need tabs)"));
}

std::string ListParser::IndexAdvice() const {
  const bool is_titles = line_number_ == 1 && columns_[0].empty();
  const bool is_number = !columns_[0].empty() &&
                         columns_[0].find_first_not_of("0123456789") == absl::string_view::npos;
  if (!is_titles && !is_number) return "";
  const bool is_certain = is_titles || has_untitled_;
  return absl::StrCat("the first column ", is_certain ? "is" : "may be",
                      " the index that pandas writes: write the list with "
                      "to_csv(..., index=False), or remove that column",
                      is_titles ? ", and write `header: true` in the spec" : "");
}

std::string ListParser::OrderAdvice() const {
  if (columns_.empty() || LooksLikeImage(columns_[0])) return "";
  for (size_t i = path_columns_; i < columns_.size(); ++i) {
    if (!LooksLikeImage(columns_[i])) continue;
    return absl::StrCat("; `", Printable(columns_[i].substr(0, kShownPathBytes)), "` in column ",
                        i + 1,
                        " looks like a path: paths come first in a line, then labels (`images` and "
                        "`labels` name the columns in this order, whatever the titles are)");
  }
  return "";
}

absl::StatusOr<bool> ListParser::Parse(absl::string_view line) {
  ++line_number_;
  if (line_number_ == 1 && absl::StartsWith(line, "\xef\xbb\xbf")) line.remove_prefix(3);
  const absl::string_view unstripped = line;
  line = absl::StripAsciiWhitespace(line);
  if (line.empty() || line[0] == '#') return false;
  if (line.find('\0') != absl::string_view::npos) {
    return Invalid("holds a zero byte; this is not a text file (UTF-8 is expected)");
  }
  const size_t wanted = path_columns_ + label_columns_;
  const bool whole_line = wanted == 1 && delimiter_ == 0;
  if (!whole_line && delimiter_ == 0) delimiter_ = DelimiterOf(line);
  if (is_first_) {
    is_first_ = false;
    has_untitled_ = delimiter_ != 0 && delimiter_ != ' ' && unstripped[0] == delimiter_;
  }
  if (header_left_) {
    header_left_ = false;
    return false;
  }
  BULKHEAD_RETURN_IF_ERROR(Split(line, whole_line));
  paths_.assign(columns_.begin(), columns_.begin() + static_cast<ptrdiff_t>(path_columns_));
  for (const absl::string_view path : paths_) {
    if (path.empty()) return Invalid("has an empty path");
    if (path.size() > max_path_bytes_) {
      return Invalid(absl::StrCat("its path has ", path.size(), " bytes, max_path_bytes is ",
                                  max_path_bytes_, "; raise it to take this list"));
    }
  }
  labels_.clear();
  for (size_t i = path_columns_; i < wanted; ++i) {
    const std::string problem =
        label_reader_->Read(i - path_columns_, columns_[i], line_number_, labels_);
    if (!problem.empty()) return Invalid(absl::StrCat(problem, OrderAdvice()));
  }
  return true;
}

}  // namespace bulkhead
