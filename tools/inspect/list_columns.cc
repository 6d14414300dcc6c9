#include "tools/inspect/list_columns.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/source/images/list_line.h"
#include "tools/inspect/image_header.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

// What an editor may have put before the first line.
constexpr char kByteOrderMark[] = "\xef\xbb\xbf";

// Whether the value names a file, or would if it were there.
bool IsPath(const std::string& list, const std::string& value) {
  const std::string ending = fs::path(value).extension().string();
  const bool is_image =
      !ending.empty() && UsualExtensions().count(absl::AsciiStrToLower(ending.substr(1))) > 0;
  std::error_code error;
  return is_image || fs::is_regular_file(fs::path(list).parent_path() / value, error);
}

// Whether the title is one that stands over paths.
bool IsTitleOfPaths(absl::string_view title) {
  std::string folded;
  for (const char c : title) {
    if (absl::ascii_isalnum(c)) folded += absl::ascii_tolower(c);
  }
  static const auto& titles = *new std::set<std::string>{
      "file",      "files",     "filename", "filepath", "id",      "image",  "imagefile", "imageid",
      "imagename", "imagepath", "images",   "img",      "imgpath", "name",   "path",      "paths",
      "photo",     "picture",   "sample",   "uri",      "url",     "imgfile"};
  return titles.count(folded) > 0;
}

bool IsNumber(const std::string& value) {
  double number = 0;
  return absl::SimpleAtod(value, &number);
}

// Whether `first`, whose value at `path` is no path, holds titles of what `second` holds: none of
// them is a number, where `second` has one; or, without numbers, paths have a usual title.
bool AreTitles(const std::vector<std::string>& first, const std::vector<std::string>& second,
               size_t path) {
  bool numbers_begin = false;
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (i == path || !IsNumber(second[i])) continue;
    if (IsNumber(first[i])) return false;
    numbers_begin = true;
  }
  return numbers_begin || IsTitleOfPaths(first[path]);
}

}  // namespace

std::optional<std::string> ListLines::Next() {
  for (std::string line; std::getline(file_, line);) {
    if (++number_ == 1) line = std::string(absl::StripPrefix(line, kByteOrderMark));
    line = std::string(absl::StripAsciiWhitespace(line));
    if (!line.empty() && line.front() != '#') return line;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<std::string>> ListColumns::Split(absl::string_view line) const {
  ListLine cut;
  const std::string problem = cut.Split(line, delimiter);
  if (!problem.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid, problem);
  }
  return std::vector<std::string>(cut.columns().begin(), cut.columns().end());
}

absl::StatusOr<ListColumns> ColumnsOf(const std::string& list) {
  ListLines lines(list);
  const std::optional<std::string> first = lines.Next();
  const std::string first_place = absl::StrCat(list, ":", lines.number());
  const std::optional<std::string> second = lines.Next();
  ListColumns columns;
  if (!first.has_value()) return columns;
  columns.delimiter = DelimiterOf(*first);
  auto titles = columns.Split(*first);
  if (!titles.ok()) return Annotate(titles.status(), first_place);
  columns.first = *std::move(titles);
  std::vector<std::string> values = columns.first;
  if (second.has_value()) {
    auto cut = columns.Split(*second);
    if (!cut.ok()) return Annotate(cut.status(), absl::StrCat(list, ":", lines.number()));
    values = *std::move(cut);
  }
  const auto path = std::find_if(values.begin(), values.end(),
                                 [&](const std::string& value) { return IsPath(list, value); });
  if (path == values.end()) return columns;
  columns.path_column = static_cast<size_t>(path - values.begin());
  columns.header = columns.path_column < columns.first.size() &&
                   !IsPath(list, columns.first[columns.path_column]) &&
                   AreTitles(columns.first, values, columns.path_column);
  return columns;
}

}  // namespace bulkhead::tools
