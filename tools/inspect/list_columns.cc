#include "tools/inspect/list_columns.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/source/images/list_line.h"
#include "tools/inspect/usual_extensions.h"

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
  columns.delimiter = first->find('\t') != std::string::npos  ? '\t'
                      : first->find(',') != std::string::npos ? ','
                                                              : ' ';
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
                   !IsPath(list, columns.first[columns.path_column]);
  return columns;
}

}  // namespace bulkhead::tools
