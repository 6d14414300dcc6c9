#include "server/source/images/label_reader.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/little_endian.h"
#include "server/base/nearest_name.h"
#include "server/base/record_name.h"
#include "server/source/images/list_parser.h"

namespace bulkhead {
namespace {

constexpr size_t kMostShownBytes = 40;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("`", Printable(text.substr(0, kMostShownBytes)), "`");
}

bool IsNumber(absl::string_view text) {
  double number = 0;
  return absl::SimpleAtod(text, &number);
}

std::vector<std::string> FeatureNames(const v1::ImageListSource& list) {
  if (list.unlabeled()) return {};
  if (list.labels().empty()) return {"label"};
  return {list.labels().begin(), list.labels().end()};
}

}  // namespace

LabelReader::LabelReader(const v1::ImageListSource& list)
    : feature_names_(FeatureNames(list)),
      classes_(list.classes().begin(), list.classes().end()),
      floats_(list.label_dtype() == v1::DTYPE_FLOAT32),
      columns_(LabelColumns(list)),
      learning_(!floats_ && classes_.empty() && !columns_.empty()) {
  for (Column& column : columns_) {
    for (const std::string& name : classes_) {
      column.numbers.emplace(name, static_cast<int64_t>(column.numbers.size()));
    }
  }
}

std::string LabelReader::Read(size_t column, absl::string_view text, uint64_t line,
                              std::string& numbers) {
  Column& of = columns_[column];
  if (floats_) {
    float value = 0;
    if (!absl::SimpleAtof(text, &value) || !std::isfinite(value)) {
      return absl::StrCat("label ", Quoted(text), " is not a number");
    }
    AppendLittle<float>(numbers, value);
    return "";
  }
  if (text.empty()) return "has an empty label";
  if (of.sort == Sort::kUndecided) Decide(text, line, of);
  decided_ = decided_ || column + 1 == columns_.size();
  if (learning_) return of.sort == Sort::kNames ? Learn(text, of) : "";
  return of.sort == Sort::kNames ? ReadName(text, of, numbers) : ReadInteger(text, of, numbers);
}

void LabelReader::Decide(absl::string_view text, uint64_t line, Column& column) {
  const bool is_name = column.numbers.count(text) > 0 || !IsNumber(text);
  column.sort = is_name ? Sort::kNames : Sort::kNumbers;
  column.first_line = line;
  column.first = Quoted(text);
  has_unknown_names_ = has_unknown_names_ || is_name;
}

std::string LabelReader::NumberAmongNames(absl::string_view text, const Column& column) {
  return absl::StrCat("label ", Quoted(text), " is a number, but that of line ", column.first_line,
                      " is the name ", column.first,
                      "; write `header: true` if that line holds titles, or name the `classes` "
                      "if numbers are among their names");
}

std::string LabelReader::Learn(absl::string_view text, Column& column) {
  if (IsNumber(text)) return NumberAmongNames(text, column);
  if (column.numbers.count(text) > 0) return "";
  learned_bytes_ += text.size() + 1;
  if (learned_bytes_ > kMaxClassNamesBytes) {
    return "is where the names of classes become more than 1 MiB; is this column a label? (any "
           "number of classes can be given by numbers)";
  }
  column.numbers.emplace(text, 0);
  return "";
}

void LabelReader::EndLearning() {
  learning_ = false;
  for (Column& column : columns_) {
    int64_t number = 0;
    if (!classes_.empty()) continue;
    for (auto& [name, its_number] : column.numbers) its_number = number++;
  }
}

std::string LabelReader::ReadName(absl::string_view text, const Column& column,
                                  std::string& numbers) const {
  const auto found = column.numbers.find(text);
  if (found != column.numbers.end()) {
    AppendLittle<int64_t>(numbers, found->second);
    return "";
  }
  if (classes_.empty() && IsNumber(text)) return NumberAmongNames(text, column);
  const std::string near = NearestName(text, classes_);
  return absl::StrCat("label ", Quoted(text), " is not among the ", column.numbers.size(),
                      " `classes`; ",
                      near.empty() ? "add it to them, or leave `classes` out"
                                   : absl::StrCat("did you mean ", Quoted(near), "?"));
}

std::string LabelReader::ReadInteger(absl::string_view text, const Column& column,
                                     std::string& numbers) const {
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value)) {
    const auto count = static_cast<int64_t>(classes_.size());
    if (count > 0 && (value < 0 || value >= count)) {
      return absl::StrCat("label ", value, " is none of the ", count,
                          " `classes`, which count from 0");
    }
    AppendLittle<int64_t>(numbers, value);
    return "";
  }
  if (IsNumber(text)) {
    return absl::StrCat("label ", Quoted(text),
                        " is not an integer; set label_dtype: float32 to read it");
  }
  return absl::StrCat("label ", Quoted(text), " is a name, but that of line ", column.first_line,
                      " is the number ", column.first,
                      "; the labels of a column are all numbers or all names of classes");
}

ClassNames LabelReader::names() const {
  ClassNames names;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].numbers.empty()) continue;
    std::vector<std::string>& classes = names[feature_names_[i]];
    classes.resize(columns_[i].numbers.size());
    for (const auto& [name, number] : columns_[i].numbers) {
      classes[static_cast<size_t>(number)] = name;
    }
  }
  return names;
}

}  // namespace bulkhead
