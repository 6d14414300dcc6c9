#include "server/source/objects.h"

#include <algorithm>
#include <tuple>

#include "server/base/error.h"

namespace bulkhead {

DataFile::Object ObjectOf(const internal::v1::ResolvedFile& file) {
  if (!file.has_object()) return {};
  return {file.object().key(), file.path(), file.object().spare_path()};
}

std::vector<internal::v1::ObjectParts> MergeParts(std::vector<ObjectPart> parts) {
  std::sort(parts.begin(), parts.end(), [](const ObjectPart& a, const ObjectPart& b) {
    return std::tie(a.key, a.begin) < std::tie(b.key, b.begin);
  });
  std::vector<internal::v1::ObjectParts> objects;
  for (const ObjectPart& part : parts) {
    if (objects.empty() || objects.back().key() != part.key) {
      objects.emplace_back().set_key(part.key);
    }
    auto& bounds = *objects.back().mutable_bounds();
    // An image that is read twice is fetched once.
    const bool is_new = bounds.empty() || part.end > *bounds.rbegin();
    if (is_new) objects.back().set_bytes(objects.back().bytes() + part.bytes);
    if (!bounds.empty() && part.begin <= *bounds.rbegin()) {
      *bounds.rbegin() = std::max(*bounds.rbegin(), part.end);
    } else {
      bounds.Add(part.begin);
      bounds.Add(part.end);
    }
  }
  return objects;
}

absl::StatusOr<DataFile> OpenData(const internal::v1::ResolvedFile& file, const Roots& roots,
                                  absl::string_view name) {
  BULKHEAD_ASSIGN_OR_RETURN(DataFile opened, file.has_object()
                                                 ? DataFile::OpenObject(ObjectOf(file), name)
                                                 : roots.Open(file.path(), name));
  BULKHEAD_RETURN_IF_ERROR(
      opened.CheckUnchanged({file.size_bytes(), file.mtime_ns(), file.inode()}));
  return opened;
}

}  // namespace bulkhead
