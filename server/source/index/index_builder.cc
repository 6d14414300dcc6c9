#include "server/source/index/index_builder.h"

#include "server/base/error.h"
#include "server/source/images/classes_file.h"
#include "server/source/images/image_folder.h"
#include "server/source/images/image_list.h"
#include "server/source/index/selection_builder.h"
#include "server/source/tar/tar_index.h"
#include "server/source/tfrecord/tfrecord_index.h"

namespace bulkhead {

absl::StatusOr<uint64_t> BuildIndex(const internal::v1::BuildIndex& request, int fd,
                                    const IndexProgressFn& progress) {
  if (request.has_selection()) return BuildSelection(request, fd, progress);
  if (request.has_classes()) {
    internal::v1::BuildIndex with_names = request;
    BULKHEAD_RETURN_IF_ERROR(ReadClassesFile(with_names));
    with_names.clear_classes();
    return BuildIndex(with_names, fd, progress);
  }
  switch (request.source().source_case()) {
    case v1::Source::kTfrecord:
      return BuildTfRecordIndex(request, fd, progress);
    case v1::Source::kTar:
      return BuildTarIndex(request, fd, progress);
    case v1::Source::kImageList:
      return BuildImageListIndex(request, fd, progress);
    case v1::Source::kImageFolder:
      return BuildImageFolderIndex(request, fd, progress);
    case v1::Source::kRange:
    case v1::Source::kMixture:  // each of its sources has its own
    case v1::Source::SOURCE_NOT_SET:
      break;
  }
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                   "source: this kind of source has no record index", {{"path", "source"}});
}

}  // namespace bulkhead
