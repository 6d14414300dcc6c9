#include "tools/inspect/list_survey.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/source/images/list_line.h"
#include "tools/common/count_text.h"
#include "tools/inspect/image_header.h"
#include "tools/inspect/list_images.h"

namespace bulkhead::tools {
namespace {

// An image list has a path and some labels: what has longer lines, or more columns, is none.
constexpr size_t kMostLineBytes = 64 << 10;
constexpr size_t kMostColumns = 256;
// Texts of a column that are counted: classes are not many more.
constexpr size_t kMostTexts = 10'000;
constexpr size_t kMostClassesOfList = 20;

absl::Status NoList(const std::string& list, uint64_t line, absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                   absl::StrCat(list, ":", line, ": ", what, "; is this an image list?"),
                   {{"file", list}, {"line", absl::StrCat(line)}});
}

// Those of the images that are objects, in the lines' order; what cannot be read is told later.
std::vector<std::string> UrlsIn(const std::string& list, const ListColumns& form,
                                const std::string& folder) {
  std::vector<std::string> urls;
  ListLines lines(list);
  while (const std::optional<std::string> line = lines.Next()) {
    const auto columns = form.Split(*line);
    if (!columns.ok() || form.path_column >= columns->size()) continue;
    std::string place = PlaceOfImage(folder, (*columns)[form.path_column]);
    if (IsObjectUrl(place)) urls.push_back(std::move(place));
  }
  return urls;
}

}  // namespace

void ListSurvey::Column::Take(const std::string& value) {
  if (values++ == 0) first = value;
  double number = 0;
  int64_t integer = 0;
  if (!absl::SimpleAtod(value, &number) || !std::isfinite(number)) {
    if (texts.size() < kMostTexts || texts.count(value) > 0) ++texts[value];
    return;
  }
  if (absl::SimpleAtoi(value, &integer)) ++integers;
  low = numbers == 0 ? number : std::min(low, number);
  high = numbers == 0 ? number : std::max(high, number);
  ++numbers;
}

ListSurvey::Sort ListSurvey::Column::sort() const {
  if (values == 0) return Sort::kNothing;
  if (integers == values) return Sort::kIntegers;
  if (numbers == values) return Sort::kNumbers;
  return numbers == 0 ? Sort::kNames : Sort::kMixed;
}

std::string ListSurvey::Column::Text() const {
  if (values == 0) return "nothing";
  if (numbers == values) {
    return absl::StrFormat("numbers, %.6g to %.6g, first %s", low, high, first);
  }
  if (numbers > 0) {
    return absl::StrCat(CountText(numbers, "number"), " and ", CountText(values - numbers, "text"),
                        ", first '", Printable(first), "'");
  }
  std::vector<std::string> shown;
  for (const auto& [name, count] : texts) {
    if (shown.size() == kMostClassesOfList) break;
    shown.push_back(absl::StrCat(count, " ", Printable(name)));
  }
  return absl::StrCat(texts.size() == kMostTexts ? "at least " : "",
                      CountText(texts.size(), "class", "classes"), ": ", absl::StrJoin(shown, ", "),
                      texts.size() > shown.size() ? " ..." : "");
}

absl::StatusOr<ListSurvey> ListSurvey::Of(const std::string& list,
                                          const std::optional<Look>& look) {
  ListLines lines(list);
  if (!lines.opened()) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kFileUnreadable,
                     absl::StrCat(list, ": cannot be opened"), {{"file", list}});
  }
  ListSurvey survey;
  BULKHEAD_ASSIGN_OR_RETURN(survey.form_, ColumnsOf(list));
  const std::string& name = look.has_value() ? look->list : list;
  const std::string folder = FolderOfList(name);
  ListImages images(look.has_value() ? look->objects : nullptr);
  if (look.has_value()) {
    BULKHEAD_RETURN_IF_ERROR(images.LookFor(UrlsIn(list, survey.form_, folder),
                                            std::max<uint64_t>(look->headers, SampleRows::kMost),
                                            look->progress));
  }
  bool header_left = survey.form_.header;
  uint64_t looked_at = 0;
  while (const std::optional<std::string> line = lines.Next()) {
    if (line->size() > kMostLineBytes)
      return NoList(list, lines.number(), "the line is over 64 KiB");
    auto cut = survey.form_.Split(*line);
    if (!cut.ok()) return NoList(list, lines.number(), cut.status().message());
    const std::vector<std::string> columns = *std::move(cut);
    if (columns.size() > kMostColumns) return NoList(list, lines.number(), "has over 256 columns");
    if (header_left) {
      for (const std::string& name : columns) survey.columns_.push_back({.name = name});
      header_left = false;
      continue;
    }
    survey.TakeLine(columns);
    if (!look.has_value() || survey.form_.path_column >= columns.size()) continue;
    const std::string place = PlaceOfImage(folder, columns[survey.form_.path_column]);
    const bool is_object = IsObjectUrl(place);
    const std::string shown = is_object ? ShownUrl(place) : place;
    if (!survey.first_.full()) {
      survey.ShowLine(absl::StrCat(name, ":", lines.number()), columns,
                      ImageText(images.Read(place)));
    }
    if (!images.Has(place)) {
      if (survey.missing_count_++ < ImageSurvey::kMostProblems) {
        survey.missing_.push_back(absl::StrCat(name, ":", lines.number(), ": ", shown,
                                               ": there is no such ",
                                               is_object ? "object" : "file"));
      }
    } else if (looked_at < look->headers) {
      ++looked_at;
      survey.images_.TakeFile(images.Read(place), shown);
    }
  }
  return survey;
}

void ListSurvey::ShowLine(const std::string& place, const std::vector<std::string>& columns,
                          const std::string& image) {
  SampleRows::Values values;
  for (size_t i = 0, labels = 0; i < columns.size(); ++i) {
    const bool is_path = i == form_.path_column;
    std::string name = is_path ? "image" : ++labels > 1 ? absl::StrCat("label_", labels) : "label";
    if (form_.header) name = absl::StrCat("column ", i + 1);
    if (!columns_[i].name.empty()) name = columns_[i].name;
    values.emplace_back(name, is_path ? absl::StrCat(columns[i], " (", image, ")") : columns[i]);
  }
  first_.Add(place, std::move(values));
}

void ListSurvey::TakeLine(const std::vector<std::string>& columns) {
  ++rows_;
  if (columns_.size() < columns.size()) columns_.resize(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) columns_[i].Take(columns[i]);
}

bool ListSurvey::IsIndex(size_t column) const {
  const Column& values = columns_[column];
  const bool untitled = values.name.empty() || absl::StartsWith(values.name, "Unnamed: ");
  return form_.header && column < form_.path_column && untitled &&
         values.sort() == Sort::kIntegers && values.low == 0 &&
         values.high == static_cast<double>(rows_ - 1);
}

std::string ListSurvey::Text() const {
  std::string text =
      absl::StrCat(CountText(rows_, "line"), ", columns between ", DelimiterName(form_.delimiter),
                   form_.header ? ", below a header" : "", "\n");
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    absl::StrAppend(
        &text, "  column ", i + 1,
        column.name.empty() ? "" : absl::StrCat(" '", Printable(column.name), "'"), ": ",
        i == form_.path_column ? absl::StrCat("paths, first '", Printable(column.first), "'")
        : IsIndex(i)           ? "the index that pandas writes"
                               : column.Text(),
        "\n");
  }
  absl::StrAppend(&text, CountText(missing_count_, "file is", "files are"), " missing\n");
  if (images_.count() > 0) {
    absl::StrAppend(&text, "of ", images_.count(), " looked at: ", images_.Text(), "\n");
  }
  return text + first_.Text();
}

JsonObject ListSurvey::Json() const {
  std::vector<JsonObject> columns;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    JsonObject json;
    const bool numbers = column.values > 0 && column.numbers == column.values;
    json.Add("name", column.name).Add("first", column.first).Add("numbers", numbers);
    if (numbers) json.Add("lowest", column.low).Add("highest", column.high);
    if (column.sort() == Sort::kNames && i != form_.path_column) json.Add("classes", column.texts);
    columns.push_back(json);
  }
  return JsonObject()
      .Add("rows", rows_)
      .Add("header", form_.header)
      .Add("path_column", form_.path_column + 1)
      .Add("columns", columns)
      .Add("missing_files", missing_count_)
      .Add("looked_at", images_.Json())
      .Add("first_samples", first_.Json());
}

}  // namespace bulkhead::tools
