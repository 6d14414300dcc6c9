#include "tools/pack/read_file.h"

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/source/file.h"

namespace bulkhead::tools {

absl::StatusOr<std::string> ReadFileOf(const std::string& path, const std::string& name,
                                       uint64_t most_bytes) {
  BULKHEAD_ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path, name));
  if (file.size_bytes() > most_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(name, ": has ", FormatBytes(file.size_bytes()),
                                                     ", at most ", FormatBytes(most_bytes),
                                                     " are read"));
  }
  std::string bytes(file.size_bytes(), '\0');
  BULKHEAD_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, bytes.data(), bytes.size()));
  BULKHEAD_RETURN_IF_ERROR(file.CheckStill());
  bytes.resize(got);
  return bytes;
}

}  // namespace bulkhead::tools
