#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/source/images/label_reader.h"
#include "server/source/images/list_line.h"

namespace bulkhead {

// Splits the lines of an image list into paths and labels. Lines come in order, one per call; CRLF
// and a byte order mark are removed. list_line.h cuts a line into columns. A list of one column has
// nothing to separate: the whole line is the path, unless a delimiter is given. Not thread-safe.
class ListParser {
 public:
  // `name`: the list's name in messages, as in "train.txt:17: …". `labels` belongs to the caller
  // and outlives this.
  ListParser(const v1::ImageListSource& list, absl::string_view name, LabelReader* labels);

  // Takes the next line, without its newline. False if it has no sample: a header, a comment, a
  // blank line. LIST_INVALID (INVALID_ARGUMENT) with metadata `file` and `line` if it cannot be
  // used.
  absl::StatusOr<bool> Parse(absl::string_view line);

  // The paths of the line just parsed: views of it, or of this object.
  const std::vector<absl::string_view>& paths() const { return paths_; }
  // Its labels: little-endian int64 or float32, one after the other; empty while the reader learns.
  const std::string& labels() const { return labels_; }
  uint64_t line_number() const { return line_number_; }
  // "train.txt:17".
  std::string place() const;

  // "; `a.jpg` in column 2 …" where a label of the line just parsed looks like the image's path,
  // and its path does not; else empty.
  std::string OrderAdvice() const;

  // LIST_INVALID about the line just parsed.
  absl::Status Invalid(absl::string_view what) const;

 private:
  // Cuts `line` into columns; LIST_INVALID if the number of columns is wrong.
  absl::Status Split(absl::string_view line, bool whole_line);
  // "; …" where the line's first column is the index that pandas writes; else empty.
  std::string IndexAdvice() const;

  const std::string name_;
  const size_t path_columns_;
  const size_t label_columns_;
  const uint64_t max_path_bytes_;
  LabelReader* const label_reader_;
  char delimiter_;  // 0: the first line will tell
  bool header_left_;
  bool is_first_ = true;       // no line that holds something was seen
  bool has_untitled_ = false;  // the first one begins with an empty column
  uint64_t line_number_ = 0;
  ListLine cut_;
  std::vector<absl::string_view> columns_;
  std::vector<absl::string_view> paths_;
  std::string labels_;
};

// The number of columns of each kind.
size_t PathColumns(const v1::ImageListSource& list);
size_t LabelColumns(const v1::ImageListSource& list);

}  // namespace bulkhead
