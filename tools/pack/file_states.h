#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/data/data_finder.h"
#include "server/source/images/image_rows.h"
#include "server/source/source.h"

namespace bulkhead::tools {

// The sizes and times of change of the files that the records of a source are read from, and the
// ETags of objects. Immutable,
// thread-safe; must not outlive the indexes of what was found.
class FileStates {
 public:
  // INDEX_DAMAGED; NOT_FOUND.
  static absl::StatusOr<FileStates> Of(const v1::Source& source, const FoundData& found);

  // Another one when the file of a record has changed, or what its list says of it.
  uint64_t Of(const RecordIdentity& record) const;

 private:
  // Of the images of a list or folder, by path.
  absl::Status AddImages(const v1::Source& source, const internal::v1::ResolvedSource& resolved);

  uint64_t all_ = 0;  // of those that records do not name
  absl::flat_hash_map<std::string, uint64_t> by_file_;
  std::optional<ImageRows> rows_;
  absl::flat_hash_map<absl::string_view, uint64_t> by_image_;  // views of rows_
};

}  // namespace bulkhead::tools
