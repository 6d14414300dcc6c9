#ifndef BULKHEAD_TOOLS_LOCAL_OBJECT_COPY_H_
#define BULKHEAD_TOOLS_LOCAL_OBJECT_COPY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/data/object_fetcher.h"
#include "tools/local/temporary_folder.h"

namespace bulkhead::tools {

// A file of this host with the name and the bytes of an object, for what looks at files: a text is
// copied whole, of anything else the beginning, by which it is told. Goes with this object.
class ObjectCopy {
 public:
  // Blocks for the network. `found`: of ObjectFetcher::Find. Errors: those of the store;
  // FILE_UNREADABLE if the copy cannot be written.
  static absl::StatusOr<ObjectCopy> Make(ObjectFetcher& objects,
                                         const internal::v1::ResolvedFile& found);

  const std::string& path() const { return path_; }
  // What was said of the copy, and of what is named beside it, as of the object.
  std::string AsOfObject(absl::string_view text) const;
  absl::Status AsOfObject(const absl::Status& status) const;

 private:
  TemporaryFolder folder_;
  std::string path_;
  std::string url_folder_;
};

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_LOCAL_OBJECT_COPY_H_
