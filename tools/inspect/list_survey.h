#ifndef BULKHEAD_TOOLS_INSPECT_LIST_SURVEY_H_
#define BULKHEAD_TOOLS_INSPECT_LIST_SURVEY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/common/json.h"
#include "tools/inspect/image_survey.h"

namespace bulkhead::tools {

// What an image list holds: its columns, and whether the files that it names are there.
class ListSurvey {
 public:
  // Reads the whole list, looks for the file in the first column of every line, and reads the
  // headers of the first `headers` of those. Relative paths start from the list's folder. Blocks.
  static absl::StatusOr<ListSurvey> Of(const std::string& list, uint64_t headers);

  const ImageSurvey& images() const { return images_; }
  // "train.txt:17: photos/a.jpg: there is no such file"; at most ImageSurvey::kMostProblems.
  const std::vector<std::string>& missing() const { return missing_; }
  std::string Text() const;
  JsonObject Json() const;

 private:
  struct Column {
    std::string name;
    std::string first;
    bool numbers = true;
    double low = 0;
    double high = 0;
    uint64_t values = 0;

    void Take(const std::string& value);
    std::string Text() const;
  };

  void TakeLine(const std::vector<std::string>& columns);

  uint64_t rows_ = 0;
  uint64_t missing_count_ = 0;
  char delimiter_ = ' ';
  bool header_ = false;
  std::vector<Column> columns_;
  std::vector<std::string> missing_;
  ImageSurvey images_;
};

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_INSPECT_LIST_SURVEY_H_
