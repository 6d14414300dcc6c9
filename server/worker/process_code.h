#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/types.pb.h"
#include "server/arena/code_files.h"
#include "server/stages/running/user_code.h"

namespace bulkhead {

// The user files that this process has loaded: Python modules, by the bytes that were compiled, and
// shared libraries. Thread-safe.
class ProcessCode {
 public:
  // The objects that `user_code` points to must outlive this.
  explicit ProcessCode(const UserCode& user_code);

  // The files loaded since the last call. Cheap if there are none.
  std::vector<v1::CodeFile> TakeNew() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  PythonHost* const python_;  // may be null
  const CodeFolders folders_;
  absl::Mutex mutex_;
  uint64_t library_loads_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> libraries_ ABSL_GUARDED_BY(mutex_);  // already reported
};

}  // namespace bulkhead
