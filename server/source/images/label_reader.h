#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/class_names.h"

namespace bulkhead {

// Turns the labels of an image list into numbers. The first label of a column decides whether the
// column holds numbers or names of classes, and the others must be of the same sort. A name's
// number is its place in the spec's `classes` or, without them, among the sorted names of its
// column. All names must be known before the first is numbered, so such a list is read twice:
//
//   LabelReader labels(list);
//   … labels.Read(…) of every line, while labels.learns() …
//   labels.EndLearning();
//   … labels.Read(…) of every line …
//
// Not thread-safe.
class LabelReader {
 public:
  explicit LabelReader(const v1::ImageListSource& list);

  // Reads the label `text` of column `column` of line `line` and, unless it learns, appends its
  // number to `numbers`: little-endian int64 or float32. Returns the problem with it; empty if
  // there is none.
  std::string Read(size_t column, absl::string_view text, uint64_t line, std::string& numbers);

  // Whether names must be learned from the following lines.
  bool learns() const { return learning_ && (!decided_ || has_unknown_names_); }
  void EndLearning();
  // The class names of the columns that have some.
  ClassNames names() const;

 private:
  enum class Sort { kUndecided, kNumbers, kNames };
  struct Column {
    Sort sort = Sort::kUndecided;
    uint64_t first_line = 0;  // of its first label
    std::string first;
    std::map<std::string, int64_t, std::less<>> numbers;  // by the names of the classes
  };

  void Decide(absl::string_view text, uint64_t line, Column& column);
  static std::string NumberAmongNames(absl::string_view text, const Column& column);
  std::string Learn(absl::string_view text, Column& column);
  std::string ReadName(absl::string_view text, const Column& column, std::string& numbers) const;
  std::string ReadInteger(absl::string_view text, const Column& column, std::string& numbers) const;

  const std::vector<std::string> feature_names_;
  const std::vector<std::string> classes_;  // of the spec
  const bool floats_;
  std::vector<Column> columns_;
  bool learning_;
  bool decided_ = false;  // a line was read
  bool has_unknown_names_ = false;
  size_t learned_bytes_ = 0;
};

}  // namespace bulkhead
