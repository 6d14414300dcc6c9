#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/source/file.h"
#include "server/source/roots.h"

namespace bulkhead {

// Bytes [begin, end) of an object of an object store; or objects [begin, end) of a table.
struct ObjectPart {
  std::string key;  // StoredObject.key or TableOfObjects.key
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t bytes = 0;  // of the objects of a table

  bool operator==(const ObjectPart&) const = default;
};

// The object of a resolved file; false if it is a file.
DataFile::Object ObjectOf(const internal::v1::ResolvedFile& file);

// The parts of each object together, in the order of its bytes, and what two have in common once.
std::vector<internal::v1::ObjectParts> MergeParts(std::vector<ObjectPart> parts);

// Opens a resolved file or object. Errors: those of Roots::Open, DataFile::OpenObject and
// DataFile::CheckUnchanged.
absl::StatusOr<DataFile> OpenData(const internal::v1::ResolvedFile& file, const Roots& roots,
                                  absl::string_view name);

}  // namespace bulkhead
