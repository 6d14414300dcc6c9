#pragma once

#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead::tools {

// The form of an image list, by its first two lines that say anything.
struct ListColumns {
  char delimiter = ' ';
  std::vector<std::string> first;  // the first line's values, or titles
  size_t path_column = 0;          // the first that holds paths
  // Certain: the first line has no path where the second one has one, and is not a missing file's:
  // it has no numbers where the second one has, or calls its paths as titles do.
  bool header = false;

  // The values of a line, as a stream reads them (server/source/images/list_line.h). LIST_INVALID,
  // without a place.
  absl::StatusOr<std::vector<std::string>> Split(absl::string_view line) const;
};
// LIST_INVALID when one of those lines cannot be read.
absl::StatusOr<ListColumns> ColumnsOf(const std::string& list);

// The lines of a list that say something: trimmed, without a byte order mark, without empty lines
// and comments.
class ListLines {
 public:
  explicit ListLines(const std::string& list) : file_(list) {}

  bool opened() const { return file_.is_open(); }
  std::optional<std::string> Next();
  // Of the line that Next gave, from 1.
  uint64_t number() const { return number_; }

 private:
  std::ifstream file_;
  uint64_t number_ = 0;
};

}  // namespace bulkhead::tools
