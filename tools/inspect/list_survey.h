#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/data/index_kind.h"
#include "server/data/object_fetcher.h"
#include "tools/common/json.h"
#include "tools/inspect/image_survey.h"
#include "tools/inspect/list_columns.h"
#include "tools/inspect/sample_rows.h"

namespace bulkhead::tools {

// What an image list holds: its columns, and whether the files that it names are there.
class ListSurvey {
 public:
  // What the values of a column are.
  enum class Sort { kNothing, kIntegers, kNumbers, kNames, kMixed };
  struct Column {
    std::string name;  // its title
    std::string first;
    double low = 0;  // of the values that are numbers
    double high = 0;
    uint64_t values = 0;
    uint64_t numbers = 0;
    uint64_t integers = 0;
    std::map<std::string, uint64_t> texts;  // how often each came; kMostTexts different ones

    void Take(const std::string& value);
    Sort sort() const;
    std::string Text() const;
  };

  // Where to look for the images of a list.
  struct Look {
    std::string list;                        // a path or a URL, for messages
    std::shared_ptr<ObjectFetcher> objects;  // as ListImages has it
    uint64_t headers = 0;                    // images to read
    FindProgressFn progress;
  };
  // Reads the whole list; with a `look` also looks for the image in the path column of every line,
  // and reads the headers of the first ones. Blocks. LIST_INVALID for what has longer lines or more
  // columns than a list has; the errors of the store.
  static absl::StatusOr<ListSurvey> Of(const std::string& list, const std::optional<Look>& look);

  const ImageSurvey& images() const { return images_; }
  const ListColumns& form() const { return form_; }
  const std::vector<Column>& columns() const { return columns_; }
  uint64_t rows() const { return rows_; }
  // Whether that column is the index that pandas writes: below no title, the lines' numbers from 0.
  bool IsIndex(size_t column) const;
  // "train.txt:17: photos/a.jpg: there is no such file"; at most ImageSurvey::kMostProblems.
  const std::vector<std::string>& missing() const { return missing_; }
  // Whether there are lines, and none names a file that is there.
  bool finds_nothing() const { return rows_ > 0 && missing_count_ == rows_; }
  std::string Text() const;
  JsonObject Json() const;

 private:
  void TakeLine(const std::vector<std::string>& columns);
  // One of the first lines, at `place`, and what its image is.
  void ShowLine(const std::string& place, const std::vector<std::string>& columns,
                const std::string& image);

  uint64_t rows_ = 0;
  uint64_t missing_count_ = 0;
  ListColumns form_;
  std::vector<Column> columns_;
  std::vector<std::string> missing_;
  ImageSurvey images_;
  SampleRows first_;
};

}  // namespace bulkhead::tools
