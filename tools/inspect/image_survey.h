#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/image.h"
#include "tools/common/json.h"

namespace bulkhead::tools {

// What encoded images are like, by their headers; pixels are not decoded. Not thread-safe.
class ImageSurvey {
 public:
  // Notes an image, which messages call `name`; false when its first bytes are those of no format
  // that is known, and it is not counted.
  bool Take(absl::string_view file, const std::string& name);

  // The same of what was read of a file, which has to be an image.
  void TakeFile(const absl::StatusOr<std::string>& file, const std::string& name);

  uint64_t count() const { return count_; }
  // Images that cannot be used, each with the reason; at most kMostProblems of them.
  const std::vector<std::string>& problems() const { return problems_; }
  // "98 JPEG, 2 PNG; 500 x 375 on average, 68 x 60 to 1024 x 768".
  std::string Text() const;
  JsonObject Json() const;

  static constexpr size_t kMostProblems = 20;

 private:
  void AddProblem(const std::string& name, absl::string_view what);

  uint64_t count_ = 0;
  std::map<std::string, uint64_t> formats_;
  uint64_t sizes_ = 0;  // images whose header could be read
  ImageSize smallest_;  // by pixels
  ImageSize largest_;
  double sum_height_ = 0;
  double sum_width_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace bulkhead::tools
