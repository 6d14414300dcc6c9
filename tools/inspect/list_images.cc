#include "tools/inspect/list_images.h"

#include <filesystem>

#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "tools/inspect/image_header.h"
#include "tools/local/local_objects.h"

namespace bulkhead::tools {

std::string FolderOfList(const std::string& list) {
  return IsObjectUrl(list) ? FolderOfUrl(list) : std::filesystem::path(list).parent_path().string();
}

std::string PlaceOfImage(const std::string& folder, const std::string& image) {
  if (NamesObject(folder, image)) return JoinUrl(folder, image);
  return IsObjectUrl(folder) ? image : (std::filesystem::path(folder) / image).string();
}

absl::Status ListImages::LookFor(const std::vector<std::string>& urls, uint64_t headers,
                                 const FindProgressFn& progress) {
  if (urls.empty()) return absl::OkStatus();
  if (objects_ == nullptr) {
    BULKHEAD_ASSIGN_OR_RETURN(objects_, MakeLocalObjects());
  }
  BULKHEAD_ASSIGN_OR_RETURN(stored_, StoredFiles::Named(objects_, urls, progress));
  for (const std::string& url : urls) {
    if (numbers_.size() >= headers) break;
    const auto number = stored_->table().Find(url);
    if (number.ok() && read_as_.emplace(url, numbers_.size()).second) numbers_.push_back(*number);
  }
  reader_.emplace(*stored_, [this](uint64_t i) { return numbers_[i]; });
  reader_->WillRead(0, numbers_.size());
  return absl::OkStatus();
}

bool ListImages::Has(const std::string& place) const {
  std::error_code error;
  if (!IsObjectUrl(place)) return std::filesystem::exists(place, error);
  return stored_ != nullptr && stored_->table().Find(place).ok();
}

absl::StatusOr<std::string> ListImages::Read(const std::string& place) {
  if (!IsObjectUrl(place)) return ReadImageHead(place);
  const auto found = read_as_.find(place);
  if (found == read_as_.end()) return absl::NotFoundError("there is no such object");
  return reader_->Read(found->second);
}

}  // namespace bulkhead::tools
