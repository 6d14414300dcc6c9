#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tools/common/json.h"
#include "tools/inspect/image_survey.h"
#include "tools/inspect/sample_rows.h"
#include "tools/local/stored_files.h"

namespace bulkhead::tools {

// What a folder of images holds, at any depth; hidden files and folders are passed over, as the
// source `image_folder` does.
class FolderSurvey {
 public:
  // Counts all files, and reads the headers of `headers` images, spread over all of them. Blocks.
  // FILE_UNREADABLE when a folder cannot be listed.
  static absl::StatusOr<FolderSurvey> Of(const std::string& folder, uint64_t headers);
  // The same of all below a URL, which messages call `folder`. Errors: DATA_LOSS, and those of the
  // store.
  static absl::StatusOr<FolderSurvey> Of(const StoredFiles& stored, const std::string& folder,
                                         uint64_t headers);

  const ImageSurvey& images() const { return images_; }
  uint64_t files() const { return files_; }
  // Whether there are images in sub-folders, or sub-folders alone.
  bool has_classes() const;
  std::string Text() const;
  JsonObject Json() const;

 private:
  struct Image {
    std::filesystem::path name;  // from the folder on
    uint64_t number = 0;         // of an object
  };
  // Notes a file, which is none of the hidden ones.
  void Take(const std::string& folder, Image file, uint64_t size);
  // Which images are looked at: `headers` of them, spread over all, and then the first ones.
  std::vector<uint64_t> Chosen(uint64_t headers);
  // `read`: reads the one in this place of `chosen`.
  void LookAt(const std::string& folder, const std::vector<uint64_t>& chosen,
              absl::FunctionRef<absl::StatusOr<std::string>(uint64_t place)> read);

  uint64_t files_ = 0;  // that count as images by their names
  uint64_t bytes_ = 0;
  std::map<std::string, uint64_t> classes_;  // first component of the path; "": none
  std::map<std::string, uint64_t> extensions_;
  uint64_t others_ = 0;     // files that do not
  std::string other_;       // one of them
  std::vector<Image> all_;  // sorted by Chosen
  ImageSurvey images_;
  SampleRows first_;
};

}  // namespace bulkhead::tools
