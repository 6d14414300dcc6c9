#include "tools/inspect/list_survey.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "tools/inspect/guess_spec.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

// An image list has a path and some labels: what has longer lines, or more columns, is none.
constexpr size_t kMostLineBytes = 64 << 10;
constexpr size_t kMostColumns = 256;

absl::Status NoList(const std::string& list, uint64_t line, absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                   absl::StrCat(list, ":", line, ": ", what, "; is this an image list?"),
                   {{"file", list}, {"line", absl::StrCat(line)}});
}

const char* DelimiterName(char delimiter) {
  return delimiter == '\t' ? "tabs" : delimiter == ',' ? "commas" : "spaces";
}

}  // namespace

void ListSurvey::Column::Take(const std::string& value) {
  if (values++ == 0) first = value;
  double number = 0;
  numbers = numbers && absl::SimpleAtod(value, &number);
  if (!numbers) return;
  low = values == 1 ? number : std::min(low, number);
  high = values == 1 ? number : std::max(high, number);
}

std::string ListSurvey::Column::Text() const {
  if (values == 0) return "nothing";
  if (!numbers) return absl::StrCat("text, first '", Printable(first), "'");
  return absl::StrFormat("numbers, %.6g to %.6g, first %s", low, high, first);
}

absl::StatusOr<ListSurvey> ListSurvey::Of(const std::string& list, uint64_t headers) {
  std::ifstream file(list);
  if (!file) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kFileUnreadable,
                     absl::StrCat(list, ": cannot be opened"), {{"file", list}});
  }
  const ListColumns form = ColumnsOf(list);
  ListSurvey survey;
  survey.delimiter_ = form.delimiter;
  survey.header_ = form.header;
  bool header_left = form.header;
  uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    if (++number == 1) line = std::string(absl::StripPrefix(line, kByteOrderMark));
    line = std::string(absl::StripAsciiWhitespace(line));
    if (line.size() > kMostLineBytes) return NoList(list, number, "the line is over 64 KiB");
    if (line.empty() || line.front() == '#') continue;
    const std::vector<std::string> columns =
        absl::StrSplit(line, form.delimiter, absl::SkipEmpty());
    if (columns.size() > kMostColumns) return NoList(list, number, "has over 256 columns");
    if (header_left) {
      for (const std::string& name : columns) survey.columns_.push_back({.name = name});
      header_left = false;
      continue;
    }
    survey.TakeLine(columns);
    const fs::path path = fs::path(list).parent_path() / columns[0];
    std::error_code error;
    if (!fs::exists(path, error)) {
      if (survey.missing_count_++ < ImageSurvey::kMostProblems) {
        survey.missing_.push_back(
            absl::StrCat(list, ":", number, ": ", path.string(), ": there is no such file"));
      }
    } else if (survey.images_.count() < headers) {
      survey.images_.TakeFile(path.string());
    }
  }
  return survey;
}

void ListSurvey::TakeLine(const std::vector<std::string>& columns) {
  ++rows_;
  if (columns_.size() < columns.size()) columns_.resize(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) columns_[i].Take(columns[i]);
}

std::string ListSurvey::Text() const {
  std::string text = absl::StrCat(rows_, " lines, columns between ", DelimiterName(delimiter_),
                                  header_ ? ", below a header" : "", "\n");
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    absl::StrAppend(&text, "  column ", i + 1,
                    column.name.empty() ? "" : absl::StrCat(" '", Printable(column.name), "'"),
                    ": ", column.Text(), "\n");
  }
  absl::StrAppend(&text, missing_count_, " of the files are missing\n");
  if (images_.count() > 0) {
    absl::StrAppend(&text, "of ", images_.count(), " looked at: ", images_.Text(), "\n");
  }
  return text;
}

JsonObject ListSurvey::Json() const {
  std::vector<JsonObject> columns;
  for (const Column& column : columns_) {
    JsonObject json;
    json.Add("name", column.name).Add("first", column.first).Add("numbers", column.numbers);
    if (column.numbers && column.values > 0)
      json.Add("lowest", column.low).Add("highest", column.high);
    columns.push_back(json);
  }
  return JsonObject()
      .Add("rows", rows_)
      .Add("header", header_)
      .Add("columns", columns)
      .Add("missing_files", missing_count_)
      .Add("looked_at", images_.Json());
}

}  // namespace bulkhead::tools
