#pragma once

#include "absl/status/status.h"
#include "bulkhead/internal/v1/worker.pb.h"

namespace bulkhead {

// Reads the file `request.classes` of a list or folder, UTF-8 with one class name per line, and
// puts the names into the source's `classes` instead of `classes_file`. A byte order mark, CRLF,
// blanks around names and empty lines at the end are removed. Runs in a worker: the bytes are
// untrusted. Errors: LIST_INVALID with metadata `file` and `line` for a name that is empty,
// repeated or not text, and for more than 1 MiB of names; PATH_NOT_ALLOWED, FILE_NOT_FOUND,
// FILE_UNREADABLE, FILE_CHANGED.
absl::Status ReadClassesFile(internal::v1::BuildIndex& request);

}  // namespace bulkhead
