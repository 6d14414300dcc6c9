#ifndef BULKHEAD_TOOLS_INSPECT_FOLDER_SURVEY_H_
#define BULKHEAD_TOOLS_INSPECT_FOLDER_SURVEY_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "tools/common/json.h"
#include "tools/inspect/image_survey.h"
#include "tools/inspect/sample_rows.h"

namespace bulkhead::tools {

// What a folder of images holds, at any depth; hidden files and folders are passed over, as the
// source `image_folder` does.
class FolderSurvey {
 public:
  // Counts all files, and reads the headers of `headers` images, spread over all of them. Blocks.
  // FILE_UNREADABLE when a folder cannot be listed.
  static absl::StatusOr<FolderSurvey> Of(const std::string& folder, uint64_t headers);

  const ImageSurvey& images() const { return images_; }
  uint64_t files() const { return files_; }
  // Whether there are images in sub-folders, or sub-folders alone.
  bool has_classes() const;
  std::string Text() const;
  JsonObject Json() const;

 private:
  uint64_t files_ = 0;  // that count as images by their names
  uint64_t bytes_ = 0;
  std::map<std::string, uint64_t> classes_;  // first component of the path; "": none
  std::map<std::string, uint64_t> extensions_;
  uint64_t others_ = 0;  // files that do not
  std::string other_;    // one of them
  ImageSurvey images_;
  SampleRows first_;
};

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_INSPECT_FOLDER_SURVEY_H_
