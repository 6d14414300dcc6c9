#include "tools/inspect/list_spec.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/base/shell_quoted.h"
#include "server/source/images/list_line.h"
#include "tools/common/count_text.h"
#include "tools/common/json.h"
#include "tools/inspect/list_images.h"
#include "tools/inspect/list_survey.h"
#include "tools/inspect/spec_text.h"

namespace bulkhead::tools {
namespace {

using Sort = ListSurvey::Sort;

// Lines that a spec may hold itself.
constexpr uint64_t kMostEntries = 1000;

absl::Status NoSpec(const std::string& list, absl::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                   absl::StrCat(list, ": ", why), {{"file", list}});
}

// The columns with labels.
std::vector<size_t> LabelColumns(const ListSurvey& survey) {
  std::vector<size_t> columns;
  for (size_t i = 0; i < survey.columns().size(); ++i) {
    if (i != survey.form().path_column && !survey.IsIndex(i)) columns.push_back(i);
  }
  return columns;
}

// `label, label_2`.
std::string LabelNames(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 1; i <= count; ++i) {
    names.push_back(i == 1 ? "label" : absl::StrCat("label_", i));
  }
  return absl::StrJoin(names, ", ");
}

// The element type that all labels can be read with; absent when there is none.
absl::StatusOr<std::string> LabelType(const std::string& list, const ListSurvey& survey) {
  bool names = false;
  bool fractions = false;
  for (size_t i = 0; i < survey.columns().size(); ++i) {
    const ListSurvey::Column& column = survey.columns()[i];
    if (const auto empty = column.texts.find(""); empty != column.texts.end()) {
      return NoSpec(
          list, absl::StrCat("column ", i + 1, " is empty in ", CountText(empty->second, "line"),
                             "; every line needs a value there, and none ends with a ",
                             DelimiterName(survey.form().delimiter)));
    }
    if (column.values < survey.rows()) {
      return NoSpec(list, absl::StrCat("column ", i + 1, " is missing in ",
                                       CountText(survey.rows() - column.values, "line"),
                                       "; every line needs as many columns"));
    }
    if (i == survey.form().path_column || survey.IsIndex(i)) continue;
    if (column.sort() == Sort::kMixed) {
      return NoSpec(list, absl::StrCat("column ", i + 1, " has ", column.Text(),
                                       "; labels are all numbers or all names of classes"));
    }
    names = names || column.sort() == Sort::kNames;
    fractions = fractions || column.sort() == Sort::kNumbers;
  }
  if (names && fractions) {
    return NoSpec(list,
                  "some labels are names and some are fractions, which one list cannot have; write "
                  "the names as numbers, or leave columns out");
  }
  return std::string(fractions ? "float32" : "int64");
}

// The list's lines with the path first, from the root on; `folder`: that of the list.
absl::StatusOr<std::string> Entries(const std::string& list, const std::string& folder,
                                    const ListSurvey& survey) {
  std::string entries;
  ListLines lines(list);
  bool header_left = survey.form().header;
  while (const std::optional<std::string> line = lines.Next()) {
    if (std::exchange(header_left, false)) continue;
    BULKHEAD_ASSIGN_OR_RETURN(const std::vector<std::string> values, survey.form().Split(*line));
    const std::string& path = values[survey.form().path_column];
    std::string entry = AbsolutePath(PlaceOfImage(folder, path));
    for (const size_t column : LabelColumns(survey)) {
      absl::StrAppend(&entry, "\t", values[column]);
    }
    absl::StrAppend(&entries, "\n      - ", Quoted(entry));
  }
  return entries;
}

// ": awk …", a command that puts the path's column first; empty where columns are quoted, which awk
// does not read.
std::string Reordering(const std::string& list, const ListSurvey& survey) {
  ListLines lines(list);
  while (const std::optional<std::string> line = lines.Next()) {
    if (line->find('"') != std::string::npos) return "";
  }
  const ListColumns& form = survey.form();
  std::vector<std::string> order = {absl::StrCat("$", form.path_column + 1)};
  for (const size_t column : LabelColumns(survey)) order.push_back(absl::StrCat("$", column + 1));
  const std::string between = form.delimiter == '\t' ? "\\t" : std::string(1, form.delimiter);
  return absl::StrCat(": awk -F'", between, "' -v OFS='", between, "' '{print ",
                      absl::StrJoin(order, ","), "}' ", ShellQuoted(list), " > reordered.txt");
}

}  // namespace

absl::StatusOr<std::string> ListSpec(const std::string& path, const std::string& name,
                                     const GuessOptions& options) {
  BULKHEAD_ASSIGN_OR_RETURN(const ListSurvey survey, ListSurvey::Of(path, std::nullopt));
  if (survey.rows() == 0) return NoSpec(path, "holds no line with a sample");
  BULKHEAD_ASSIGN_OR_RETURN(const std::string type, LabelType(path, survey));
  const ListColumns& form = survey.form();
  const std::string labels = LabelNames(LabelColumns(survey).size());
  std::string more =
      labels.empty() ? ", unlabeled: true" : absl::StrCat(", labels: [", labels, "]");
  if (form.path_column == 0 && form.header) more += ", header: true";
  if (type == "float32") more += ", label_dtype: float32";
  if (form.path_column == 0) {
    return WithStages(
        absl::StrCat("source:\n  image_list: {path: ", Quoted(AbsolutePath(name)), more, "}\n"),
        labels, options);
  }
  if (survey.rows() > kMostEntries) {
    return NoSpec(path, absl::StrCat("the paths are in column ", form.path_column + 1,
                                     ", and a list's paths come first; put them there",
                                     Reordering(path, survey)));
  }
  // Those are YAML on lines of their own.
  BULKHEAD_ASSIGN_OR_RETURN(const std::string entries, Entries(path, FolderOfList(name), survey));
  std::string source = "source:\n  image_list:\n    delimiter: tab\n";
  absl::StrAppend(
      &source,
      labels.empty() ? "    unlabeled: true\n" : absl::StrCat("    labels: [", labels, "]\n"),
      type == "float32" ? "    label_dtype: float32\n" : "", "    entries:", entries, "\n");
  return WithStages(source, labels, options);
}

}  // namespace bulkhead::tools
