#include "server/source/objects.h"

namespace bulkhead {

DataFile::Object ObjectOf(const internal::v1::ResolvedFile& file) {
  if (!file.has_object()) return {};
  return {file.object().key(), file.path(), file.object().spare_path()};
}

absl::StatusOr<DataFile> OpenData(const internal::v1::ResolvedFile& file, const Roots& roots,
                                  absl::string_view name) {
  if (file.has_object()) return DataFile::OpenObject(ObjectOf(file), name);
  return roots.Open(file.path(), name);
}

}  // namespace bulkhead
